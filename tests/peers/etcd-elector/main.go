// Command etcd-elector campaigns with etcd's own election recipe (client/v3/concurrency): the peer that users
// of etcd have today, for benchmarks and for tests beside it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"baton.test/journal"
)

type options struct {
	endpoints, ca, user, password string
	prefix, identity              string
	ttl                           int
	hold, rest                    time.Duration
	loop, kept                    bool
	elections, crowd              int
	log                           string
}

func main() {
	var o options
	flag.StringVar(&o.endpoints, "endpoints", "127.0.0.1:2379", "HOST:PORT of members, comma separated")
	flag.StringVar(&o.ca, "ca", "", "file with the certificate authority of the members; empty: no TLS")
	flag.StringVar(&o.user, "user", "", "name to authenticate with")
	flag.StringVar(&o.password, "password", "", "password of --user")
	flag.StringVar(&o.prefix, "prefix", "", "prefix of the election's keys")
	flag.StringVar(&o.identity, "identity", "", "who campaigns")
	flag.IntVar(&o.ttl, "ttl", 10, "of the session's lease, in seconds")
	flag.DurationVar(&o.hold, "hold", 0, "resign after leading for so long; 0: never")
	flag.DurationVar(&o.rest, "rest", 0, "with --loop, pause before campaigning again")
	flag.BoolVar(&o.loop, "loop", false, "campaign again after each loss or resignation")
	flag.BoolVar(&o.kept, "kept", false, "log 'kept IDENTITY NS TTL-S' too, at each answer to a keep-alive of the lease")
	flag.IntVar(&o.elections, "elections", 1, "campaign for so many: PREFIX-0, PREFIX-1, … as IDENTITY-0, IDENTITY-1, …")
	flag.IntVar(&o.crowd, "crowd", 0, "let so many wait for one election whose leader resigns, log 'crowd IDENTITY NS' "+
		"when all know of the next, NS after the resignation, and end")
	flag.StringVar(&o.log, "log", "", "append 'start IDENTITY NS' and 'stop IDENTITY NS' here; empty: standard output")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.prefix == "" || o.identity == "" || flag.NArg() > 0 {
		return errors.New("--prefix and --identity are needed, and nothing but flags is taken")
	}
	client, err := connect(o)
	if err != nil {
		return err
	}
	defer client.Close()
	ending, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.crowd > 0 {
		return crowd(ending, o, client)
	}
	if o.elections == 1 {
		return repeat(ending, o, client)
	}
	done := make(chan error)
	for number := range o.elections {
		one := o
		one.prefix = fmt.Sprintf("%s-%d", o.prefix, number)
		one.identity = fmt.Sprintf("%s-%d", o.identity, number)
		go func() {
			// Apart, so that not all leases are renewed at the same moments.
			time.Sleep(time.Duration(rand.Int64N(int64(time.Duration(o.ttl) * time.Second / 3))))
			done <- repeat(ending, one, client)
		}()
	}
	for range o.elections {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

// repeat campaigns once, or with --loop until the process is to end.
func repeat(ending context.Context, o options, client *clientv3.Client) error {
	log, err := journal.Open(o.log, o.identity)
	if err != nil {
		return err
	}
	for {
		pause := o.rest
		if err := campaign(ending, o, client, log); err != nil && ending.Err() == nil {
			if !o.loop {
				return err
			}
			fmt.Fprintln(os.Stderr, "warning:", err)
			// The members may be away for a moment.
			pause = max(pause, 100*time.Millisecond)
		}
		if !o.loop {
			return nil
		}
		select {
		case <-ending.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func connect(o options) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:   strings.Split(o.endpoints, ","),
		DialTimeout: 5 * time.Second,
		Username:    o.user,
		Password:    o.password,
		Logger:      zap.NewNop(),
	}
	if o.ca != "" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", o.ca)
		}
		config.TLS = &tls.Config{RootCAs: roots}
	}
	return clientv3.New(config)
}

// campaign runs for the election once, and returns when it was won and lost or resigned, or when the process is to end.
func campaign(ending context.Context, o options, client *clientv3.Client, log *journal.Journal) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(o.ttl))
	if err != nil {
		return err
	}
	// Revokes the lease, so that nobody waits for it to expire.
	defer session.Close()
	if o.kept {
		if err := logKept(client, session, log); err != nil {
			return err
		}
	}

	// The recipe itself does not notice that its session ended while it waits.
	waiting, giveUp := context.WithCancel(ending)
	defer giveUp()
	go func() {
		select {
		case <-session.Done():
			giveUp()
		case <-waiting.Done():
		}
	}()
	election := concurrency.NewElection(session, o.prefix)
	if err := election.Campaign(waiting, o.identity); err != nil {
		return err
	}

	term := log.Term()
	term.Start()
	var held <-chan time.Time
	if o.hold > 0 {
		held = time.After(o.hold)
	}
	select {
	case <-held:
	case <-ending.Done():
	case <-session.Done():
		term.Stop()
		return errors.New("the session ended while leading")
	}
	term.Stop()
	resigning, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return election.Resign(resigning)
}

// logKept listens to the keep-alives of the session beside the recipe itself: it sends none of its own. The TTL is what
// the server granted, which may be more than what was asked for.
func logKept(client *clientv3.Client, session *concurrency.Session, log *journal.Journal) error {
	answers, err := client.KeepAlive(session.Ctx(), session.Lease())
	if err != nil {
		return err
	}
	go func() {
		for answer := range answers {
			log.Kept(answer.TTL)
		}
	}()
	return nil
}
