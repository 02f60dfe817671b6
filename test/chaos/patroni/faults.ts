import type { PatroniCluster } from './cluster.ts'
import type { Host } from './network.ts'

/** Takes the primary away, and brings its machine back when another one is the primary. */
export interface Fault {
  readonly name: string
  begin(cluster: PatroniCluster, primary: Host): Promise<void> | void
  end(cluster: PatroniCluster, primary: Host): Promise<void> | void
}

export const faults: readonly Fault[] = [
  {
    name: 'killed',
    begin: (_, primary) => primary.signal('SIGKILL'),
    end: (cluster, primary) => cluster.start(primary),
  },
  {
    name: 'paused',
    begin: (_, primary) => primary.signal('SIGSTOP'),
    end: (_, primary) => primary.signal('SIGCONT'),
  },
  {
    name: 'unplugged',
    begin: (_, primary) => primary.unplug('all'),
    end: (_, primary) => primary.plugIn(),
  },
  {
    // The gateways still reach it, and it does not know yet that there is another primary.
    name: 'unplugged from the standbys',
    begin: (_, primary) => primary.unplug('peers'),
    end: (_, primary) => primary.plugIn(),
  },
  {
    name: 'switched over',
    begin: (cluster, primary) => cluster.switchOver(primary),
    end: () => {},
  },
]
