import type { NodeHeartbeats } from '../ledger-store.ts'

/**
 * The longest time between two looks that counts as silence, ms. Over a longer time nobody looked, for example
 * because PostgreSQL was down, and then no node could send a heartbeat either.
 */
const GAP_MAX_MS = 5_000

interface Watched {
  readonly heartbeats: number
  readonly silentMs: number
  /** Until when the silence is counted, on the monotonic clock. */
  readonly countedToMs: number
}

/**
 * How long the other nodes have been silent, measured by this node alone: the number of their heartbeats in
 * PostgreSQL, and its own monotonic clock. A wrong wall clock, PostgreSQL's included, makes no node look silent.
 * A node that is silent by this measure has sent no heartbeat for at least that long.
 */
export class NodeWatch {
  #watched = new Map<string, Watched>()

  /**
   * Notes the heartbeats of all live nodes, read by a statement that was sent at `sentAtMs` and answered at
   * `nowMs`, on the monotonic clock.
   */
  look(nodes: readonly NodeHeartbeats[], sentAtMs: number, nowMs: number): void {
    const watched = new Map<string, Watched>()
    for (const { nodeId, heartbeats } of nodes) {
      const known = this.#watched.get(nodeId)
      if (known?.heartbeats === heartbeats) {
        const gapMs = Math.min(sentAtMs - known.countedToMs, GAP_MAX_MS)
        watched.set(nodeId, { heartbeats, silentMs: known.silentMs + gapMs, countedToMs: sentAtMs })
      } else {
        // The heartbeat may have come at any time until the answer.
        watched.set(nodeId, { heartbeats, silentMs: 0, countedToMs: nowMs })
      }
    }
    this.#watched = watched
  }

  /** How many other nodes were alive at the last look. */
  get size(): number {
    return this.#watched.size
  }

  /** Whether the node was silent for this long. False for a node that is dead, or was never seen. */
  isSilent(nodeId: string, forMs: number): boolean {
    const watched = this.#watched.get(nodeId)
    return watched !== undefined && watched.silentMs >= forMs
  }

  /** The nodes that were silent for this long, with the heartbeats that they had all that time. */
  silentNodes(forMs: number): NodeHeartbeats[] {
    const silent: NodeHeartbeats[] = []
    for (const [nodeId, { heartbeats, silentMs }] of this.#watched)
      if (silentMs >= forMs) silent.push({ nodeId, heartbeats })
    return silent
  }
}
