import { createHash, randomUUID } from 'node:crypto'
import type { FinishReason } from '../../base/domain/completion.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { countTokens } from '../tokens/count-tokens.ts'
import { type ChatRequest, messageText, type RequestMessage } from './chat-request.ts'
import { chooseTool } from './choose-tool.ts'
import { type DemoLanguage, type Piece, textPieces } from './demo-language.ts'
import { endReply } from './end-reply.ts'
import { schemaInstance } from './schema-instance.ts'
import { seededRandom } from './seeded-random.ts'
import { writeProse } from './write-prose.ts'

/** One choice of an answer. Its pieces are generated on demand. */
export interface Reply {
  readonly index: number
  /** Set if the pieces are the arguments of a call instead of text. */
  readonly toolCall: { readonly id: string; readonly name: string } | null
  readonly pieces: Generator<Piece, FinishReason, undefined>
  /** Tokens generated so far, including those of a stop text. */
  tokens(): number
}

/** Every text of the demo starts with this label. */
export const demoLabel = '[demo model]'

/**
 * Plans the text of each choice. The same messages, seed and temperature give the same texts. At temperature
 * 0 the seed and the index of the choice have no effect.
 */
export function planReply(language: DemoLanguage, request: ChatRequest): Reply[] {
  const tool = chooseTool(request)
  return Array.from({ length: request.choices }, (_, index) => {
    const random = seededRandom(deriveSeed(request, index))
    const sentence = () => `${demoLabel}${firstSentence(language, request, random)}`
    if (tool !== null) {
      const callArguments = JSON.stringify(schemaInstance(objectRules(tool.parameters), sentence))
      const toolCall = { id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`, name: tool.name }
      const nameTokens = Math.min(countTokens(tool.name, request.maxTokens), request.maxTokens)
      return reply(index, toolCall, textPieces(callArguments), nameTokens, {
        maxTokens: request.maxTokens - nameTokens,
        stop: [],
        endReason: 'tool_calls',
      })
    }
    const pieces =
      request.format.type === 'json'
        ? textPieces(JSON.stringify(schemaInstance(request.format.schema, sentence)))
        : text(language, request, random)
    return reply(index, null, pieces, 0, { maxTokens: request.maxTokens, stop: request.stop, endReason: 'stop' })
  })
}

function reply(
  index: number,
  toolCall: Reply['toolCall'],
  pieces: Iterable<Piece>,
  tokensBefore: number,
  limits: Parameters<typeof endReply>[1],
): Reply {
  let tokens = tokensBefore
  const ended = endReply(pieces, limits, () => {
    tokens += 1
  })
  return { index, toolCall, pieces: ended, tokens: () => tokens }
}

function* text(language: DemoLanguage, request: ChatRequest, random: () => number): Generator<Piece, void, undefined> {
  yield* textPieces(`${demoLabel}${remarks(request.messages)}`)
  yield* writeProse(language, request, random)
}

/** Returns remarks about the request that precede the prose. */
function remarks(messages: readonly RequestMessage[]): string {
  const last = elementAt(messages, messages.length - 1)
  if (last.role === 'tool' || last.role === 'function') {
    const result = messageText(last.content).replaceAll(/\s+/g, ' ').trim()
    return ` The tool answered: ${result.length > 200 ? `${result.slice(0, 200).toWellFormed()}...` : result || 'nothing'}.`
  }
  const hasImage = messages.some(
    ({ content }) => Array.isArray(content) && content.some(part => part.type === 'image_url'),
  )
  return hasImage ? ' I cannot see images.' : ''
}

function firstSentence(language: DemoLanguage, request: ChatRequest, random: () => number): string {
  let sentence = ''
  for (const piece of writeProse(language, request, random)) {
    sentence += piece.text
    if (language.endsSentence(piece.token)) break
  }
  return sentence
}

/** Returns the schema of the arguments, which are an object even if the function declares none. */
function objectRules(parameters: unknown): unknown {
  const isRules = typeof parameters === 'object' && parameters !== null && !Array.isArray(parameters)
  return isRules ? { type: 'object', ...parameters } : { type: 'object' }
}

function deriveSeed(request: ChatRequest, index: number): number {
  const turn = request.temperature === 0 ? '' : `${request.seed} ${index}`
  return createHash('sha256')
    .update(`${turn}\n${JSON.stringify(request.messages)}`)
    .digest()
    .readInt32LE()
}
