// Command client-go-elector campaigns for a Lease with client-go's own leaderelection package: the peer that
// Kubernetes users have today, for tests of coexistence and for benchmarks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"baton.test/journal"
)

type options struct {
	kubeconfig, server, token, ca string
	insecure                      bool
	namespace, lease, identity    string
	leaseDuration                 time.Duration
	renewDeadline                 time.Duration
	retryPeriod                   time.Duration
	hold, rest                    time.Duration
	loop                          bool
	log                           string
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "where to find server, token and CA, if not given here")
	flag.StringVar(&o.server, "server", "", "URL of the API server")
	flag.StringVar(&o.token, "token", "", "bearer token")
	flag.StringVar(&o.ca, "ca", "", "file with the certificate authority of the server")
	flag.BoolVar(&o.insecure, "insecure", false, "do not verify the server's certificate")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the Lease")
	flag.StringVar(&o.lease, "lease", "", "name of the Lease")
	flag.StringVar(&o.identity, "identity", "", "who campaigns")
	flag.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long others wait before they take over")
	flag.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "how long the leader tries to renew")
	flag.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "pause between two tries")
	flag.DurationVar(&o.hold, "hold", 0, "release after leading for so long; 0: never")
	flag.DurationVar(&o.rest, "rest", 0, "with --loop, pause before campaigning again")
	flag.BoolVar(&o.loop, "loop", false, "campaign again after each loss or release")
	flag.StringVar(&o.log, "log", "", "append 'start IDENTITY NS' and 'stop IDENTITY NS' here; empty: standard output")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.lease == "" || o.identity == "" || flag.NArg() > 0 {
		return fmt.Errorf("--lease and --identity are needed, and nothing but flags is taken")
	}
	client, err := connect(o)
	if err != nil {
		return err
	}
	log, err := journal.Open(o.log, o.identity)
	if err != nil {
		return err
	}
	ending, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for {
		if err := campaign(ending, o, client, log); err != nil {
			return err
		}
		if !o.loop {
			return nil
		}
		select {
		case <-ending.Done():
			return nil
		case <-time.After(o.rest):
		}
	}
}

func connect(o options) (*kubernetes.Clientset, error) {
	config := &rest.Config{}
	if o.kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
			return nil, err
		}
	}
	if o.server != "" {
		config.Host = o.server
	}
	if o.token != "" {
		config.BearerToken = o.token
	}
	if o.ca != "" {
		config.TLSClientConfig = rest.TLSClientConfig{CAFile: o.ca}
	}
	if o.insecure {
		config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	}
	// The elector paces itself; the client's own limit would only distort what is measured.
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// campaign runs for the Lease once, and returns when it was won and lost or released, or when the process is to end.
func campaign(ending context.Context, o options, client *kubernetes.Clientset, log *journal.Journal) error {
	// Not a child of ending: the end of the term is recorded before the Lease is released.
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	term := log.Term()
	go func() {
		select {
		case <-ending.Done():
			term.Stop()
			giveUp()
		case <-ctx.Done():
		}
	}()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
		},
		LeaseDuration:   o.leaseDuration,
		RenewDeadline:   o.renewDeadline,
		RetryPeriod:     o.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !term.Start() || o.hold == 0 {
					return
				}
				select {
				case <-time.After(o.hold):
					term.Stop()
					giveUp()
				case <-leading.Done():
				}
			},
			// Called on a loss as well, which is the first that client-go tells of it.
			OnStoppedLeading: term.Stop,
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}
