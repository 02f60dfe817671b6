import type { AskedAnswer } from './ask-offer.ts'

interface Choice {
  readonly message?: { readonly content?: unknown } | undefined
  readonly delta?: { readonly content?: unknown } | undefined
  readonly logprobs?: { readonly content?: readonly Position[] | null } | null | undefined
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
  return {
    text: choices.map(({ message, delta }) => textOf((message ?? delta)?.content)).join(''),
    topTokens: choices.flatMap(({ logprobs }) => logprobs?.content ?? []).flatMap(topTokensOf),
  }
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
