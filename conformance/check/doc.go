// Package check tells an operator whether a store, as it is configured, does what walhop relies on. It is the part of
// package conformance that can be run on a bucket in use, without package testing: by a command of yours, before a
// cluster is switched to a store, after a change of its policy, or on an update of a compatible server.
//
//	err := check.Check(ctx, manager, check.Options{Other: second})
//
// Every violation is reported at once, each under the id of its case in package conformance, with the rule of
// walstorage.WalStorageManager and what breaking it means for the data. Case A1 comes first: a bucket that is missing,
// a store that does not answer and each permission that is refused are told by it in a few lines, within half a minute,
// and the other cases are skipped. Where deletes are refused nothing is stored: whether creates are refused as well is
// then seen only when deletes are allowed. Give it a context that ends on an interrupt, as signal.NotifyContext makes
// one, so that nothing is left behind on Ctrl-C either; Check returns up to 75 s later then.
//
// # What it touches
//
// Only segments of its own: under a broker id that no broker has ([DefaultBrokerID]), with the start of the check as
// their epoch and as their time, within an hour of it. It reads, deletes and looks for no other, lists no other broker,
// and never takes an id to delete from a list. All of it is deleted before Check returns, also after a failure, a panic
// of the manager or the end of the context.
//
// Two things can stay. If the process is killed, what it had stored does, below <prefix>/<cluster>/2147483647/, which
// may be deleted as a whole while no check is running; or name that id as one that is gone to package retention. And an
// upload that failed with a time-out may land after the check has looked, like any other (rule W1): the check looks
// again after 5 s, and the Logger is told of each such segment. Uploads are not cut off by the end of the context, since
// that would make such segments. In a bucket with versions or soft delete, the deleted segments stay as old versions, as the
// segments of real brokers do.
//
// # What it needs and costs
//
// The permissions that a broker needs, and no more: create, read (which includes the size), delete, and list, on
// <prefix>/<cluster>/2147483647/ at least. Amazon S3 answers 403 to a read of what is missing unless the credentials have
// s3:ListBucket for the whole bucket; A1 reports that too.
//
// On a store that keeps the contract, with [Options.Other]: at most 70 creates, 65 reads, 65 requests for the size,
// 90 lists of nearly empty folders, and 20 deletes of 130 segments in all, where the store deletes in bulk. It stores less
// than 1 MiB together, for as long as the check runs, which is some hundred times the latency of the store: seconds as a
// rule, and by the prices of the large clouds less than a cent. A violation can add requests, in the cleanup three for
// each segment and round.
//
// # What it does not show
//
// That an upload survives a crash; what happens on faults of the network; the isolation of clusters and of brokers; lists
// and bulk deletes longer than a page or batch of the store. For these there is package conformance, on a bucket made for
// it. A pass is no proof: races are run once.
package check
