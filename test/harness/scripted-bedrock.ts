import type { ConverseResponse, ConverseStreamOutput, TokenUsage } from '@aws-sdk/client-bedrock-runtime'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { type Behaviour, status } from './scripted-upstream.ts'
import type { VendorAnswer } from './scripted-vendors.ts'

// Answers as Bedrock's Converse sends them. The types of AWS's SDK check the shapes, and its codec writes the frames.

const codec = new EventStreamCodec(
  bytes => Buffer.from(bytes as Uint8Array).toString('utf8'),
  text => Buffer.from(text, 'utf8'),
)

/** Returns one frame of a stream, as the official codec writes it. */
export function frame(headers: Record<string, string>, payload: string): Buffer {
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }])
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body: Buffer.from(payload) }))
}

export function eventFrame(type: string, payload: object): Buffer {
  const headers = { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' }
  return frame(headers, JSON.stringify(payload))
}

export function exceptionFrame(type: string, message: string): Buffer {
  const headers = { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' }
  return frame(headers, JSON.stringify({ message }))
}

/** The usage of an answer without `tokens`: 10 fresh tokens, 20 read from a cache, 8 written (5 of them for an hour), 7 of output. */
const standardUsage = {
  inputTokens: 10,
  outputTokens: 7,
  totalTokens: 45,
  cacheReadInputTokens: 20,
  cacheWriteInputTokens: 8,
  cacheDetails: [{ ttl: '1h' as const, inputTokens: 5 }],
}

function usageOf({ tokens }: VendorAnswer): TokenUsage {
  if (tokens === undefined) return standardUsage
  return { inputTokens: tokens.input, outputTokens: tokens.output, totalTokens: tokens.input + tokens.output }
}

function stopReason({ calls = [], limitReached }: VendorAnswer): 'max_tokens' | 'tool_use' | 'end_turn' {
  return limitReached ? 'max_tokens' : calls.length > 0 ? 'tool_use' : 'end_turn'
}

/** The body of a whole answer. */
export function bedrockBody(answer: VendorAnswer): ConverseResponse {
  const { thinking, text, calls = [] } = answer
  return {
    output: {
      message: {
        role: 'assistant',
        content: [
          ...(thinking
            ? [{ reasoningContent: { reasoningText: { text: thinking.text, signature: thinking.seal } } }]
            : []),
          ...(text === undefined ? [] : [{ text }]),
          ...calls.map(({ id, name, args }) => ({ toolUse: { toolUseId: id, name, input: args as never } })),
        ],
      },
    },
    stopReason: stopReason(answer),
    usage: usageOf(answer),
    metrics: { latencyMs: 10 },
  }
}

/** The events of a stream, each under its name. */
export function bedrockEvents(answer: VendorAnswer): ConverseStreamOutput[] {
  const { thinking, text, calls = [] } = answer
  const events: ConverseStreamOutput[] = [{ messageStart: { role: 'assistant' } }]
  let contentBlockIndex = 0
  const delta = (change: object) => events.push({ contentBlockDelta: { contentBlockIndex, delta: change as never } })
  const stop = () => events.push({ contentBlockStop: { contentBlockIndex: contentBlockIndex++ } })
  if (thinking) {
    for (const word of thinking.text.split(/(?<= )/)) delta({ reasoningContent: { text: word } })
    delta({ reasoningContent: { signature: thinking.seal } })
    stop()
  }
  if (text !== undefined) {
    for (const word of text.split(/(?<= )/)) delta({ text: word })
    stop()
  }
  for (const { id, name, args } of calls) {
    events.push({ contentBlockStart: { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } } })
    const json = JSON.stringify(args)
    delta({ toolUse: { input: json.slice(0, 4) } })
    delta({ toolUse: { input: json.slice(4) } })
    stop()
  }
  events.push(
    { messageStop: { stopReason: stopReason(answer) } },
    { metadata: { usage: usageOf(answer), metrics: { latencyMs: 10 } } },
  )
  return events
}

/** The frames of a stream. Bedrock pads its events with `p`. */
export function streamFrames(answer: VendorAnswer): Buffer[] {
  return bedrockEvents(answer).map(event => {
    const [[type, payload]] = Object.entries(event) as [[string, object]]
    return eventFrame(type, { ...payload, p: 'abcdefgh' })
  })
}

/** A correct answer: a stream if the path asks for one. `split`: each byte of the stream arrives alone. */
export function bedrockAnswer(answer: VendorAnswer, split = false): Behaviour {
  return async (request, response) => {
    if (!request.path.endsWith('-stream')) return status(200, bedrockBody(answer))(request, response)
    return bedrockStream(streamFrames(answer), split)(request, response)
  }
}

/** A stream of these bytes. */
export function bedrockStream(frames: readonly Buffer[], split = false): Behaviour {
  const bytes = Buffer.concat(frames)
  const pieces = split ? Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)) : [bytes]
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
    for (const piece of pieces) response.write(piece)
    response.end()
  }
}

/** Bedrock's answer to a request that it does not serve. */
export function bedrockError(code: number, type: string, message: string): Behaviour {
  return status(code, { message }, { 'x-amzn-errortype': `${type}:http://internal.amazon.com/` })
}
