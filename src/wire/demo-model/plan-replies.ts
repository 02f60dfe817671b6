import { createHash, randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { FinishReason } from '../../base/domain/completion.ts'
import { countTokens } from '../tokens/count-tokens.ts'
import { type DemoLanguage, type Piece, textPieces, writeProse } from './demo-language.ts'
import { type ChatRequest, DemoError, messageText } from './demo-request.ts'
import { jsonBySchema } from './json-by-schema.ts'
import { seededRandom } from './seeded-random.ts'

/** One choice of an answer. */
export interface Reply {
  /** Set if the pieces are the arguments of a call instead of text. */
  readonly call: { readonly id: string; readonly name: string } | null
  readonly pieces: readonly Piece[]
  /** Generated tokens, including the name of a function and a stop text. */
  readonly tokens: number
  readonly finish: FinishReason
}

/** Every text of the demo starts with this label. */
const LABEL = '[demo model]'

/**
 * Plans the choices of each request. The same messages, seed and temperature give the same texts. At temperature
 * 0 the seed and the index of the choice have no effect. Rejects with DemoError.
 */
export async function planReplies(language: DemoLanguage, requests: readonly ChatRequest[]): Promise<Reply[]> {
  const replies: Reply[] = []
  for (const request of requests) {
    const tool = chooseTool(request)
    for (let index = 0; index < request.choices; index++) {
      replies.push(planReply(language, request, tool, seededRandom(seedOf(request, index))))
      // The demo shares the event loop of the gateway.
      await setImmediate()
    }
  }
  return replies
}

function planReply(
  language: DemoLanguage,
  request: ChatRequest,
  tool: ReturnType<typeof chooseTool>,
  random: () => number,
): Reply {
  const { maxTokens } = request
  if (tool !== null) {
    const call = { id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`, name: tool.name }
    const nameTokens = Math.min(countTokens(tool.name, maxTokens), maxTokens)
    const taken = take(jsonPieces({ type: 'object', ...tool.parameters }), maxTokens - nameTokens)
    const finish = taken.finish === 'stop' ? 'tool_calls' : taken.finish
    return { call, pieces: taken.pieces, tokens: nameTokens + taken.tokens, finish }
  }
  return { call: null, ...take(request.schema === null ? text() : jsonPieces(request.schema), maxTokens, request.stop) }

  function* text() {
    yield* textPieces(`${LABEL}${remarks(request.messages)}`)
    yield* writeProse(language, request, random)
  }

  function jsonPieces(schema: unknown) {
    return textPieces(JSON.stringify(jsonBySchema(schema, sentence)))
  }

  function sentence(): string {
    let written = LABEL
    for (const piece of writeProse(language, request, random)) {
      written += piece.text
      if (piece.token === language.fullStop) break
    }
    return written
  }
}

/** Takes pieces up to the limit, or to the first stop text, of which no part is taken. */
function take(pieces: Iterable<Piece>, maxTokens: number, stop: readonly string[] = []): Omit<Reply, 'call'> {
  const taken: Piece[] = []
  let text = ''
  for (const piece of pieces) {
    if (taken.length >= maxTokens) return { pieces: taken, tokens: taken.length, finish: 'length' }
    taken.push(piece)
    // A stop text that ends in this piece begins at most its own length before the piece.
    const ends = stop.map(each => (text + piece.text).indexOf(each, text.length - each.length)).filter(at => at !== -1)
    text += piece.text
    if (ends.length === 0) continue
    let length = Math.min(...ends)
    const shown = taken.map(each => {
      const shownText = each.text.slice(0, length)
      length -= shownText.length
      return { ...each, text: shownText }
    })
    return { pieces: shown.filter(each => each.text !== ''), tokens: taken.length, finish: 'stop' }
  }
  return { pieces: taken, tokens: taken.length, finish: 'stop' }
}

/**
 * Returns the function that the demo calls, or null if it answers in text. It calls a function if a call is
 * required, or if the last user message names the function (`get_weather`, or "get weather"). After a tool result
 * it always answers in text; otherwise it would call the function forever.
 */
function chooseTool({ messages, tools, toolChoice }: ChatRequest) {
  if (toolChoice === 'none' || isToolResult(messages.at(-1))) return null
  const name = typeof toolChoice === 'string' ? undefined : toolChoice.function?.name
  const functions = tools.flatMap(tool => tool.function ?? [])
  const allowed = functions.filter(each => name === undefined || each.name === name)
  const words = asWords(messageText(messages.findLast(message => message.role === 'user')?.content))
  const named = allowed.find(each => words.includes(asWords(each.name)))
  if (named !== undefined || (toolChoice !== 'required' && name === undefined)) return named ?? null
  const [first] = allowed
  if (first === undefined) throw new DemoError(400, 'tool_choice: tools has no such function', 'tool_choice')
  return first
}

function isToolResult(message: ChatRequest['messages'][number] | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}

/** Returns the text in lower case with one space around each word, so that a name matches only whole words. */
function asWords(text: string): string {
  return ` ${text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `
}

/** Returns remarks about the request that precede the prose. */
function remarks(messages: ChatRequest['messages']): string {
  const last = messages.at(-1)
  if (isToolResult(last)) {
    const result = messageText(last?.content).replaceAll(/\s+/g, ' ').trim()
    return ` The tool answered: ${result.length > 200 ? `${result.slice(0, 200).toWellFormed()}...` : result || 'nothing'}.`
  }
  const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : (content ?? [])))
  return parts.some(part => part.type === 'image_url') ? ' I cannot see images.' : ''
}

function seedOf(request: ChatRequest, index: number): number {
  const turn = request.temperature === 0 ? '' : `${request.seed} ${index}`
  return createHash('sha256')
    .update(`${turn}\n${JSON.stringify(request.messages)}`)
    .digest()
    .readInt32LE()
}
