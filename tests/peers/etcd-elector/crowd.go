package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// A bound on a hang.
const crowdLimit = 2 * time.Minute

// crowd lets one lead and many wait in line for the same election, each with a session of its own, all of them observing
// who leads. The leader resigns; what counts is when the last of the others has been told of the next leader, and that
// one's campaign has returned. All share one client, which is cheaper for etcd than one connection each.
func crowd(ending context.Context, o options, client *clientv3.Client) error {
	ctx, stop := context.WithTimeout(ending, crowdLimit)
	defer stop()
	leader, err := candidate(o, client)
	if err != nil {
		return err
	}
	if err := leader.Campaign(ctx, "first"); err != nil {
		return err
	}
	failed := make(chan error, 3*o.crowd)
	ready, told, leads := make(chan struct{}), make(chan time.Time, o.crowd), make(chan time.Time, o.crowd)
	for number := range o.crowd {
		go func() {
			election, err := candidate(o, client)
			if err != nil {
				failed <- err
				return
			}
			go observe(ctx, election, ready, told)
			if err := election.Campaign(ctx, fmt.Sprintf("%s-%d", o.identity, number)); err != nil {
				failed <- err
				return
			}
			leads <- time.Now()
		}()
	}
	for range o.crowd {
		select {
		case <-ready:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := allInLine(ctx, o, client); err != nil {
		return err
	}
	resigned := time.Now()
	if err := leader.Resign(ctx); err != nil {
		return err
	}
	var last time.Time
	for number := range o.crowd + 1 {
		// The one that leads next, and all that are told.
		from := told
		if number == 0 {
			from = leads
		}
		select {
		case at := <-from:
			if at.After(last) {
				last = at
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Printf("crowd %s %d\n", o.identity, last.Sub(resigned).Nanoseconds())
	return nil
}

// candidate is one with a session of its own. The sessions end with their leases: to revoke them one by one would be to
// elect a thousand times.
func candidate(o options, client *clientv3.Client) (*concurrency.Election, error) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(o.ttl))
	if err != nil {
		return nil, err
	}
	return concurrency.NewElection(session, o.prefix), nil
}

// observe says once who leads at first, and once when another does.
func observe(ctx context.Context, election *concurrency.Election, ready chan<- struct{}, told chan<- time.Time) {
	first := true
	for answer := range election.Observe(ctx) {
		now := time.Now()
		if len(answer.Kvs) == 0 {
			continue
		}
		if string(answer.Kvs[0].Value) != "first" {
			told <- now
			return
		}
		if first {
			first = false
			ready <- struct{}{}
		}
	}
}

// allInLine waits until the keys of all candidates are there.
func allInLine(ctx context.Context, o options, client *clientv3.Client) error {
	for {
		answer, err := client.Get(ctx, o.prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if answer.Count == int64(o.crowd)+1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	// Who has put its key has still to look for the one before it.
	time.Sleep(300 * time.Millisecond)
	return nil
}
