import type { ListedRequest } from '#api/activity.ts'

/** How a request ended, in words. docs/money.md has what each costs. */
export const outcomeWords: Readonly<Record<ListedRequest['outcome'], string>> = {
  served: 'served',
  client_gone: 'client left',
  refused_upstream: 'refused by the server',
  unserved: 'no server',
  interrupted: 'interrupted',
  shutdown: 'gateway stopped',
  internal_error: 'internal error',
  node_died: 'gateway died',
  superseded: 'charged by another node',
}
