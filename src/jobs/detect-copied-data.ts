import type { Log } from '../base/runtime/log.ts'
import type { NodeListener } from '../money/ledger/leases/node-life.ts'

/**
 * Logs once when one of these nodes sends heartbeats. They wrote to the data directory of this process, which
 * is therefore a copy of the directory of a running gateway.
 */
export function detectCopiedData(nodeIds: readonly string[], log: Pick<Log, 'warn'>): NodeListener {
  const first = new Map<string, number>()
  let isLogged = false
  return {
    onFenced() {},
    onRecalled() {},
    onBeat({ others }) {
      if (isLogged) return
      const alive = others.find(({ nodeId, heartbeats }) => {
        if (!nodeIds.includes(nodeId)) return false
        if (!first.has(nodeId)) first.set(nodeId, heartbeats)
        return first.get(nodeId) !== heartbeats
      })
      if (alive === undefined) return
      isLogged = true
      log.warn(
        { node: alive.nodeId },
        'this data directory is a copy of the one of a running gateway: its charges are not made twice, and its leases stay. Give each gateway a data directory of its own',
      )
    },
  }
}
