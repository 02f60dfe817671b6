import type { Dialect } from '../../src/base/domain/conversation.ts'
import type { ClientDialectName } from '../stream-load.ts'
import { modelOf } from '../subjects/switchyard.ts'

/** A dialect of the client and one of the upstream. */
export type DialectPair = {
  /** `<client> to <upstream>` */
  name: string
  client: ClientDialectName
  upstream: Dialect
  path: string
  headers: Record<string, string>
  wholeBody: string
  streamBody: string
}

/** The same request in each dialect of a client. */
const clients: Record<
  ClientDialectName,
  { path: string; headers?: Record<string, string>; body: (prompt: string, maxTokens: number) => object }
> = {
  chat: {
    path: '/v1/chat/completions',
    body: (content, max_tokens) => ({ messages: [{ role: 'user', content }], max_tokens }),
  },
  responses: {
    path: '/v1/responses',
    body: (content, max_output_tokens) => ({ input: [{ role: 'user', content }], max_output_tokens }),
  },
  messages: {
    path: '/v1/messages',
    headers: { 'anthropic-version': '2023-06-01' },
    body: (content, max_tokens) => ({ messages: [{ role: 'user', content }], max_tokens }),
  },
}

const PROMPT = 'Where does this car go?'
const WHOLE_TOKENS_MAX = 128
/** More than enough: the gateway may count the tokens of a time stamp differently. */
const STREAM_TOKENS_MAX = 1024

/** The first pair is the identity: chat, as it is. */
export const pairs: readonly DialectPair[] = [
  pair('chat', 'chat'),
  pair('chat', 'responses'),
  pair('chat', 'messages'),
  pair('chat', 'gemini'),
  pair('responses', 'chat'),
  pair('messages', 'chat'),
  pair('responses', 'responses'),
  pair('messages', 'messages'),
]

function pair(client: ClientDialectName, upstream: Dialect): DialectPair {
  const { path, headers = {}, body } = clients[client]
  const model = modelOf(upstream)
  // Other dialects report the usage in every stream.
  const usage = client === 'chat' ? { stream_options: { include_usage: true } } : {}
  return {
    name: `${client} to ${upstream}`,
    ...{ client, upstream, path, headers },
    wholeBody: JSON.stringify({ model, ...body(PROMPT, WHOLE_TOKENS_MAX) }),
    streamBody: JSON.stringify({ model, ...body(PROMPT, STREAM_TOKENS_MAX), stream: true, ...usage }),
  }
}
