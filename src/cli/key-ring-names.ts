import type { NodeKeys } from '../base/secrets/key-ring-state.ts'

/** How messages name a master key: the beginning of its mark. */
export const idOf = (mark: string) => mark.slice(0, 12)

/** The machines of these nodes. */
export const hostsOf = (nodes: readonly NodeKeys[]) =>
  [...new Set(nodes.map(({ host, nodeId }) => host ?? nodeId))].toSorted().join(', ')
