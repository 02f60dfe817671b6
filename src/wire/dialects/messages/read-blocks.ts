import type {
  CacheHint,
  DocumentPart,
  ImagePart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  ToolResultPart,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject, jsonText } from '../../../base/runtime/json-object.ts'
import { isWrappedSeal, type SealReader } from '../seal.ts'
import { argumentsText } from '../tool-arguments.ts'

/** Reads the content of a turn: a text or blocks. `seals` reads those of the whole request. */
export function readBlocks(content: unknown, seals: SealReader): Part[] {
  const parts: Part[] = []
  for (const block of blocksOf(content)) {
    const part = readBlock(block, seals)
    const before = parts.at(-1)
    // The seal of a call travels as an empty thinking block before it: tool_use has no place for it.
    if (
      part.kind === 'tool_call' &&
      before?.kind === 'reasoning' &&
      before.text === '' &&
      before.seal?.family === 'google'
    ) {
      parts[parts.length - 1] = { ...part, seal: before.seal }
    } else if (part.kind === 'document' && block.context) parts.push(text(jsonText(block.context)), part)
    else parts.push(part)
  }
  return parts
}

function readBlock(block: JsonObject, seals: SealReader): Part {
  switch (block.type) {
    case 'text':
      return { kind: 'text', text: block.text as string, ...cacheOf(block) }
    case 'image':
      return readImage(block)
    case 'document':
      return readDocument(block)
    case 'search_result':
      return { ...readSearchResult(block), ...cacheOf(block) }
    case 'thinking':
      return readThinking(block, seals)
    case 'redacted_thinking':
      return {
        kind: 'reasoning',
        text: '',
        seal: { family: 'anthropic', data: block.data as string, isRedacted: true },
      }
    case 'tool_use':
      return {
        kind: 'tool_call',
        id: block.id as string,
        name: block.name as string,
        toolKind: 'function',
        arguments: argumentsText(block.input),
        ...cacheOf(block),
      }
    case 'tool_result':
      return readToolResult(block)
    default:
      return { kind: 'opaque', dialect: 'messages', json: block }
  }
}

function readThinking({ thinking, signature }: JsonObject, seals: SealReader): ReasoningPart {
  const shown = thinking as string
  if (typeof signature !== 'string' || signature === '') return { kind: 'reasoning', text: shown }
  if (!isWrappedSeal(signature))
    return { kind: 'reasoning', text: shown, seal: { family: 'anthropic', data: signature } }
  const carried = seals.read(signature)
  if (carried === null) return { kind: 'reasoning', text: shown }
  return { kind: 'reasoning', text: carried.text ?? shown, seal: carried.seal }
}

function readToolResult(block: JsonObject): ToolResultPart {
  const content = blocksOf(block.content).flatMap(readResultBlock)
  const cache = cacheOf(block).cache ?? content.findLast(part => part.cache !== undefined)?.cache
  return {
    kind: 'tool_result',
    callId: block.tool_use_id as string,
    toolKind: 'function',
    content: content.map(({ cache: _, ...part }) => part),
    isError: block.is_error === true,
    ...(cache !== undefined && { cache }),
  }
}

function readResultBlock(block: JsonObject): (TextPart | ImagePart | DocumentPart)[] {
  switch (block.type) {
    case 'text':
      return [{ kind: 'text', text: block.text as string, ...cacheOf(block) }]
    case 'image':
      return [readImage(block)]
    case 'document':
      return [readDocument(block)]
    case 'search_result':
      return [readSearchResult(block)]
    case 'tool_reference':
      return [text(`The tool ${jsonText(block.tool_name)} is available.`)]
    default:
      return []
  }
}

function readImage(block: JsonObject): ImagePart {
  return { kind: 'image', source: readSource(block.source as JsonObject), ...cacheOf(block) }
}

function readDocument(block: JsonObject): DocumentPart {
  const name = textOrNull(block.title)
  return {
    kind: 'document',
    source: readSource(block.source as JsonObject),
    ...(name !== null && { name }),
    ...cacheOf(block),
  }
}

function readSource({ type, url, data, media_type, content }: JsonObject): MediaSource {
  if (type === 'url') return { url: url as string }
  if (type === 'base64') return { mediaType: media_type as string, base64: data as string }
  return plainText(type === 'content' ? textOf(content) : (data as string))
}

function plainText(content: string): MediaSource {
  return { mediaType: 'text/plain', base64: Buffer.from(content).toString('base64') }
}

function readSearchResult({ title, source, content }: JsonObject): TextPart {
  return text([jsonText(title), jsonText(source), textOf(content)].join('\n'))
}

function textOf(content: unknown): string {
  return readTexts(content)
    .map(part => part.text)
    .join('\n')
}

/** Returns the blocks of content; a string is one text block. */
function blocksOf(content: unknown): JsonObject[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  return Array.isArray(content) ? content.filter(isJsonObject) : []
}

/** Reads the texts of content, and nothing else. */
export function readTexts(content: unknown): TextPart[] {
  return blocksOf(content).flatMap(block =>
    typeof block.text === 'string' ? [{ ...text(block.text), ...cacheOf(block) }] : [],
  )
}

function text(content: string): TextPart {
  return { kind: 'text', text: content }
}

/** Returns the cache hint of a block or tool, ready to be spread into its part. */
export function cacheOf(block: JsonObject): { cache?: CacheHint } {
  const cache = cacheHint(block.cache_control)
  return cache === null ? {} : { cache }
}

/** Reads `cache_control`. */
export function cacheHint(control: unknown): CacheHint | null {
  if (!isJsonObject(control)) return null
  return control.ttl === '1h' ? 'long' : 'short'
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
