import { t } from '@lingui/core/macro'
import type { ListedRequest } from '#api/activity.ts'

/** Why an answer ended, in words. Other reasons of a server stay as they are. */
export function servedText(finishReason: string | null): string {
  if (finishReason === null) return t`answered`
  return finishWords.get(finishReason) ?? finishReason
}

const finishWords: ReadonlyMap<string, string> = new Map([
  ['stop', t`complete`],
  ['length', t`cut at max_tokens`],
  ['tool_calls', t`calls a tool`],
  ['content_filter', t`filtered`],
])

/** How a request ended, in words. docs/money.md has what each costs. */
export const outcomeWords: Readonly<Record<ListedRequest['outcome'], string>> = {
  served: t`answered`,
  client_gone: t`client left`,
  refused_upstream: t`refused by the server`,
  unserved: t`no server`,
  interrupted: t`interrupted`,
  shutdown: t`gateway stopped`,
  internal_error: t`internal error`,
  node_died: t`gateway failed`,
  superseded: t`replaced by its repetition`,
}
