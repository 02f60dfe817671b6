import type { ListedRequest } from '#api/activity.ts'

/** Why an answer ended, in words. Other reasons of a server stay as they are. */
export function servedText(finishReason: string | null): string {
  if (finishReason === null) return 'served'
  return finishWords.get(finishReason) ?? finishReason
}

const finishWords: ReadonlyMap<string, string> = new Map([
  ['stop', 'complete'],
  ['length', 'cut at max_tokens'],
  ['tool_calls', 'calls a tool'],
  ['content_filter', 'filtered'],
])

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
