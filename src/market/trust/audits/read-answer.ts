import type { AskedAnswer } from './ask-offer.ts'

interface Choice {
  readonly message?: Message | undefined
  readonly delta?: Message | undefined
  readonly logprobs?: { readonly content?: readonly Position[] | null } | null | undefined
}

interface Message {
  readonly content?: unknown
  readonly reasoning_content?: unknown
  readonly reasoning?: unknown
  readonly tool_calls?: readonly unknown[] | null
  readonly function_call?: unknown
}

interface Position {
  readonly token?: unknown
  readonly logprob?: unknown
  readonly top_logprobs?: readonly { readonly token?: unknown; readonly logprob?: unknown }[]
}

/** Reads a completion, or the server-sent events of a streamed one, as the gateway sends them to clients. */
export function readAnswer(sent: string): AskedAnswer {
  const bodies = sent.startsWith('{') ? [sent] : eventsOf(sent)
  const choices = bodies.flatMap(body => (JSON.parse(body) as { choices?: readonly Choice[] }).choices?.[0] ?? [])
  const messages = choices.flatMap(({ message, delta }) => message ?? delta ?? [])
  return {
    text: messages.map(({ content }) => textOf(content)).join(''),
    topTokens: choices.flatMap(({ logprobs }) => logprobs?.content ?? []).flatMap(topTokensOf),
    ...(messages.some(hasOther) && { hasOther: true }),
  }
}

function hasOther({ reasoning_content, reasoning, tool_calls: calls, function_call: call }: Message): boolean {
  return (
    textOf(reasoning_content) !== '' || textOf(reasoning) !== '' || (calls?.length ?? 0) > 0 || (call ?? null) !== null
  )
}

function eventsOf(stream: string): string[] {
  return stream
    .split('\n')
    .filter(line => line.startsWith('data: {'))
    .map(line => line.slice('data: '.length))
}

function textOf(content: unknown): string {
  return typeof content === 'string' ? content : ''
}

function topTokensOf({ token, logprob, top_logprobs: top }: Position): AskedAnswer['topTokens'] {
  const listed = top && top.length > 0 ? top : [{ token, logprob }]
  const tokens = listed.flatMap(entry =>
    typeof entry.token === 'string' && typeof entry.logprob === 'number'
      ? [{ token: entry.token, logprob: entry.logprob }]
      : [],
  )
  return tokens.length === 0 ? [] : [{ tokens }]
}
