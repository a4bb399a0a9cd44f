package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// peerVariable is set in the environment of a process that is to serve as a peer.
const peerVariable = "WALHOP_CONFORMANCE_PEER"

// Reexecute returns a command that runs this test binary again, and in it the one test named: the body for
// Config.Peer. That test calls [PeerMain].
func Reexecute(tb testing.TB, test string) *exec.Cmd {
	tb.Helper()
	binary, err := os.Executable()
	if err != nil {
		tb.Fatalf("conformance: finding the test binary: %v", err)
	}
	cmd := exec.Command(binary, "-test.run=^"+test+"$")
	cmd.Env = os.Environ()
	return cmd
}

// PeerMain makes this process a peer of a suite that runs in another one: it opens handles on the places that the suite
// names, makes the calls that it is told to, and does not return. In a process that was not started by Config.Peer it
// returns at once.
//
// open is like Config.Open, and reaches the same store; what it has to know for that travels in the environment of the
// command that Config.Peer returns.
func PeerMain(open func(store objectstore.Config) (walstorage.WalStorageManager, error)) {
	if os.Getenv(peerVariable) == "" {
		return
	}
	if err := servePeer(os.Stdin, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, "conformance: peer:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// peerRequest is one line from the suite to the peer, a call of a manager.
type peerRequest struct {
	Number          int
	Prefix, Cluster string
	Op              walstorage.Op
	IDs             []walstorage.SegmentID
	Data            []byte
	Offset          int64
	Length          int
	Options         walstorage.ListOptions
}

// peerAnswer is one line back.
type peerAnswer struct {
	Number int
	Data   []byte
	Infos  []walstorage.SegmentInfo
	// Kind is the text of the error's kind, "" if it has none; Error that of the error, "" if there is none.
	Kind, Error string
}

// peerMark begins each line of an answer: the test binary may print lines of its own.
const peerMark = "walhop-conformance-peer "

// servePeer answers requests, each on a goroutine of its own, until the input ends.
func servePeer(in io.Reader, out io.Writer, open func(store objectstore.Config) (walstorage.WalStorageManager, error)) error {
	managers := make(map[place]walstorage.WalStorageManager)
	var write sync.Mutex
	var calls sync.WaitGroup
	var failed error
	lines := bufio.NewReader(in)
	for failed == nil {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		var request peerRequest
		if err == nil {
			err = json.Unmarshal(line, &request)
		}
		if err != nil {
			failed = err
			break
		}
		at := place{request.Prefix, request.Cluster}
		m := managers[at]
		if m == nil {
			if m, failed = open(at.config()); failed != nil {
				break
			}
			managers[at] = m
		}
		calls.Go(func() {
			answer := request.call(m)
			text, err := json.Marshal(answer)
			if err != nil {
				text = fmt.Appendf(nil, `{"Number":%d,"Error":%q}`, request.Number, err)
			}
			write.Lock()
			defer write.Unlock()
			// One write for a line: the suite has gone away if it fails, and then the input ends too.
			_, _ = out.Write(append(append([]byte("\n"+peerMark), text...), '\n'))
		})
	}
	calls.Wait()
	for _, m := range managers {
		failed = errors.Join(failed, m.Close())
	}
	return failed
}

func (r peerRequest) call(m walstorage.WalStorageManager) peerAnswer {
	ctx := context.Background()
	answer := peerAnswer{Number: r.Number}
	var err error
	switch r.Op {
	case walstorage.OpUpload:
		err = m.UploadSegment(ctx, r.IDs[0], r.Data)
	case walstorage.OpFetch:
		answer.Data = make([]byte, r.Length)
		err = m.FetchSegment(ctx, r.IDs[0], r.Offset, answer.Data)
	case walstorage.OpStat:
		var info walstorage.SegmentInfo
		info, err = m.StatSegment(ctx, r.IDs[0])
		answer.Infos = []walstorage.SegmentInfo{info}
	case walstorage.OpDelete:
		err = m.DeleteSegments(ctx, r.IDs...)
	case walstorage.OpList:
		for info, listErr := range m.ListSegments(ctx, r.Options) {
			if err = listErr; err == nil {
				answer.Infos = append(answer.Infos, info)
			}
		}
	default:
		err = fmt.Errorf("no such operation %q", r.Op)
	}
	if err != nil {
		answer.Error = err.Error()
		if kind := walstorage.KindOf(err); kind != nil {
			answer.Kind = kind.Error()
		}
	}
	return answer
}

// remote is a manager in another process. A call whose context ends goes on over there.
type remote struct {
	at   place
	send func(request peerRequest) (peerAnswer, error)
}

func (r *remote) call(ctx context.Context, request peerRequest) (peerAnswer, error) {
	if ctx.Err() != nil {
		return peerAnswer{}, ctx.Err()
	}
	request.Prefix, request.Cluster = r.at.prefix, r.at.cluster
	answer, err := r.send(request)
	if err != nil {
		return answer, err
	}
	if answer.Error == "" {
		return answer, nil
	}
	e := &walstorage.Error{Op: request.Op, Cause: errors.New(answer.Error)}
	if len(request.IDs) == 1 {
		e.ID = request.IDs[0]
	}
	for _, kind := range kinds {
		if kind.Error() == answer.Kind {
			e.Kind = kind
		}
	}
	return answer, e
}

func (r *remote) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	_, err := r.call(ctx, peerRequest{Op: walstorage.OpUpload, IDs: []walstorage.SegmentID{id}, Data: data})
	return err
}

func (r *remote) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	answer, err := r.call(ctx, peerRequest{Op: walstorage.OpFetch, IDs: []walstorage.SegmentID{id}, Offset: offset, Length: len(dst)})
	copy(dst, answer.Data)
	return err
}

func (r *remote) StatSegment(ctx context.Context, id walstorage.SegmentID) (walstorage.SegmentInfo, error) {
	answer, err := r.call(ctx, peerRequest{Op: walstorage.OpStat, IDs: []walstorage.SegmentID{id}})
	if err != nil || len(answer.Infos) == 0 {
		return walstorage.SegmentInfo{}, err
	}
	return answer.Infos[0], nil
}

func (r *remote) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) error {
	_, err := r.call(ctx, peerRequest{Op: walstorage.OpDelete, IDs: ids})
	return err
}

func (r *remote) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		answer, err := r.call(ctx, peerRequest{Op: walstorage.OpList, Options: options})
		for _, info := range answer.Infos {
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(walstorage.SegmentInfo{}, err)
		}
	}
}

func (r *remote) Close() error { return nil }

// peer starts another process and returns a handle on the case's place in it. The process ends with the case.
func (c *T) peer() *handle {
	c.storage.remember(c.storage.home)
	cmd := c.storage.cfg.Peer(c)
	require.NotNil(c, cmd, "Config.Peer returned nil")
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, peerVariable+"=1")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	require.NoError(c, err)
	out, err := cmd.StdoutPipe()
	require.NoError(c, err)
	require.NoError(c, cmd.Start(), "starting the peer")

	var mu sync.Mutex
	number, gone := 0, false
	waiting := make(map[int]chan peerAnswer)
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if text, ok := strings.CutPrefix(line, peerMark); ok {
				var answer peerAnswer
				if json.Unmarshal([]byte(text), &answer) == nil {
					mu.Lock()
					if ch := waiting[answer.Number]; ch != nil {
						ch <- answer // has room for one
					}
					delete(waiting, answer.Number)
					mu.Unlock()
				}
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				gone = true
				for _, ch := range waiting {
					close(ch)
				}
				clear(waiting)
				return
			}
		}
	}()
	c.Cleanup(func() {
		_ = in.Close() // the peer ends when its input does
		<-read
		if err := cmd.Wait(); err != nil {
			c.Errorf("the peer ended with %v: %s", err, complaints.String())
		}
	})
	send := func(request peerRequest) (peerAnswer, error) {
		answer := make(chan peerAnswer, 1)
		mu.Lock()
		if gone {
			mu.Unlock()
			return peerAnswer{}, errPeerGone
		}
		number++
		request.Number = number
		waiting[number] = answer
		line, err := json.Marshal(request)
		mu.Unlock()
		if err == nil {
			_, err = in.Write(append(line, '\n')) // one write for a line
		}
		if err != nil {
			return peerAnswer{}, fmt.Errorf("asking the peer: %w", err)
		}
		got, ok := <-answer
		if !ok {
			return got, errPeerGone
		}
		return got, nil
	}
	return &handle{c: c, WalStorageManager: &remote{at: c.storage.home, send: send}}
}

var errPeerGone = errors.New("the peer has gone away")
