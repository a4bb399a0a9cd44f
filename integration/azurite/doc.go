// Package azurite proves azure on Azurite, the emulator of Azure's storage that Microsoft makes.
package azurite
