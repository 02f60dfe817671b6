/** The script of one request to a server that echoes it: the request's body as JSON. */
export interface EchoScript {
  /** Unique. The answer repeats it. */
  readonly token: string
  readonly framing: 'length' | 'chunked'
  /** Delay of the answer in ms. */
  readonly answersAfterMs: number
  /** The server answers once more this long after its answer; absent for a server that answers once. */
  readonly repeatsAfterMs?: number
  /** Where both answers together are split into two writes, in bytes from the end of the first answer. */
  readonly cut?: number
}

/** What a server writes for a script: pieces with the delay before each in ms. */
export function writesOf(script: EchoScript): { readonly afterMs: number; readonly bytes: string }[] {
  const { answersAfterMs, repeatsAfterMs, cut = 0 } = script
  const answer = echoOf(script)
  if (repeatsAfterMs === undefined) return [{ afterMs: answersAfterMs, bytes: answer }]
  const twice = answer + answer
  const end = answer.length + cut
  return [
    { afterMs: answersAfterMs, bytes: twice.slice(0, end) },
    { afterMs: repeatsAfterMs, bytes: twice.slice(end) },
  ]
}

/** A body in which every piece of a few bytes shows the request that it belongs to. */
export const bodyOf = (token: string) => `<${token}>`.repeat(20)

function echoOf({ token, framing }: EchoScript): string {
  const body = bodyOf(token)
  if (framing === 'length') return `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  const chunks = body.match(/.{1,100}/g)!.map(chunk => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
  return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`
}
