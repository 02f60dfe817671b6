import type {
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  ToolResultPart,
  Turn,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { mediaUrlProblem } from '../chat/media-url.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import { refuseLongList, refuseManyKeys } from '../json/parse-json.ts'
import { type CarriedSeal, SealReader } from '../seal.ts'
import { camelKeys } from './camel-keys.ts'
import { readGeminiSignature } from './gemini-signature.ts'
import { OpenCalls } from './open-calls.ts'
import { SKIP_SIGNATURE } from './write-content.ts'

/** Limits of a request. The server limits the size of the whole body before these apply. */
export const bounds = { contents: 8_192, partsPerContent: 2_048, functions: 1_024 } as const

/**
 * Reads `contents`. Neighbouring contents of the same role become one turn. Throws ApiError for the first invalid one.
 */
export function readContents(contents: unknown): Turn[] {
  if (contents === undefined || contents === null) throw missingField('contents')
  const list: unknown[] = Array.isArray(contents) ? contents : [contents]
  if (list.length === 0) throw invalidField('contents', 'an array with at least one content', contents)
  refuseLongList(list, bounds.contents, 'contents')
  const reader = new ContentReader()
  for (let i = 0; i < list.length; i++) reader.readContent(list[i], `contents[${i}]`)
  return reader.turns
}

/** Reads `systemInstruction`: a content, of which only the text counts. */
export function readSystem(content: unknown): TextPart[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [{ kind: 'text', text: content }]
  if (!isJsonObject(content)) throw invalidField('systemInstruction', 'a content object', content)
  const parts = partsOf(content, 'systemInstruction')
  return parts.flatMap(({ text }) => (typeof text === 'string' && text !== '' ? [{ kind: 'text' as const, text }] : []))
}

class ContentReader {
  readonly turns: { role: Turn['role']; parts: Part[] }[] = []
  readonly #open = new OpenCalls()
  #calls = 0
  readonly #seals = new SealReader()
  /** Seals of other vendors so far: each may come a second time, on the call after its thought. */
  readonly #seen = new Set<string>()

  readContent(content: unknown, param: string): void {
    if (!isJsonObject(content)) throw invalidField(param, 'a content object', content)
    refuseManyKeys(content, param)
    const role = content.role ?? 'user'
    if (role !== 'user' && role !== 'model' && role !== 'function') {
      throw invalidField(`${param}.role`, 'user or model', role)
    }
    const parts = joinedReasoning(
      partsOf(content, param).flatMap((part, i) => this.#readPart(part, `${param}.parts[${i}]`)),
    )
    if (parts.length === 0) return
    const turnRole = role === 'model' ? 'assistant' : 'user'
    const last = this.turns.at(-1)
    if (last?.role === turnRole) last.parts.push(...parts)
    else this.turns.push({ role: turnRole, parts })
  }

  #readPart(part: JsonObject, param: string): Part[] {
    const { text, thoughtSignature: signature } = part
    const carried = this.#readSignature(signature)
    const seal = carried?.seal
    if (isJsonObject(part.functionCall)) return this.#readCall(camelKeys(part.functionCall), param, carried)
    if (isJsonObject(part.functionResponse)) return [this.#readResult(camelKeys(part.functionResponse), param)]
    if (isJsonObject(part.inlineData) || isJsonObject(part.fileData)) return [mediaPart(part, param)]
    if (text === undefined && seal === undefined) return [{ kind: 'opaque', dialect: 'gemini', json: part }]
    if (text !== undefined && typeof text !== 'string') throw invalidField(`${param}.text`, 'a string', text)
    if (part.thought === true) return [{ kind: 'reasoning', text: text ?? '', ...(seal && { seal }) }]
    return [...(text ? [{ kind: 'text' as const, text }] : []), ...(carried ? [carriedReasoning(carried)] : [])]
  }

  #readSignature(signature: unknown): CarriedSeal | null {
    if (typeof signature !== 'string' || signature === '' || signature === SKIP_SIGNATURE) return null
    const carried = readGeminiSignature(signature, this.#seals)
    const { family, data } = carried?.seal ?? {}
    if (data === undefined || data === '' || family === 'google') return carried
    if (this.#seen.has(data)) return null
    this.#seen.add(data)
    return carried
  }

  #readCall({ id: given, name, args }: JsonObject, param: string, carried: CarriedSeal | null): Part[] {
    if (typeof name !== 'string' || name === '') throw invalidField(`${param}.functionCall.name`, 'a name', name)
    const id = typeof given === 'string' && given !== '' ? given : `call_${this.#calls}`
    this.#calls++
    this.#open.add(id, name)
    const call: Part = { kind: 'tool_call', id, name, toolKind: 'function', arguments: JSON.stringify(args ?? {}) }
    if (carried === null) return [call]
    // A seal of another family travelled on the call, but belongs to the reasoning before it.
    return carried.seal.family === 'google' ? [{ ...call, seal: carried.seal }] : [carriedReasoning(carried), call]
  }

  #readResult({ id: given, name, response, parts }: JsonObject, param: string): ToolResultPart {
    if (typeof name !== 'string' || name === '') throw invalidField(`${param}.functionResponse.name`, 'a name', name)
    if (!isJsonObject(response)) throw invalidField(`${param}.functionResponse.response`, 'an object', response)
    const id = typeof given === 'string' && given !== '' ? given : null
    const media = (Array.isArray(parts) ? parts : []).flatMap((part, i) =>
      isJsonObject(part) ? [mediaPart(camelKeys(part), `${param}.functionResponse.parts[${i}]`)] : [],
    )
    const { text, isError } = resultText(response)
    return {
      kind: 'tool_result',
      callId: this.#open.take(id, name) ?? id ?? name,
      toolKind: 'function',
      content: [
        ...(text === '' ? [] : [{ kind: 'text' as const, text }]),
        ...media.filter(part => part.kind !== 'audio'),
      ],
      isError,
    }
  }
}

function carriedReasoning({ seal, text = '' }: CarriedSeal): ReasoningPart {
  return { kind: 'reasoning', text, seal }
}

/**
 * Joins the pieces in which a stream gave out one thought, the last with its seal. Thoughts before reasoning that a
 * signature carried are dropped: they are its text once more.
 */
function joinedReasoning(parts: readonly Part[]): Part[] {
  const carriedAt = parts.findLastIndex(part => part.kind === 'reasoning' && part.seal?.family === 'text')
  const joined: Part[] = []
  parts.forEach((part, i) => {
    const last = joined.at(-1)
    if (part.kind !== 'reasoning') joined.push(part)
    else if (part.seal === undefined && i < carriedAt) return
    else if (last?.kind === 'reasoning' && last.seal === undefined) {
      joined[joined.length - 1] = { ...part, text: last.text + part.text }
    } else joined.push(part)
  })
  return joined
}

/** Google's keys for the output of a function are `output` and `error`; other objects are the output themselves. */
function resultText(response: JsonObject): { text: string; isError: boolean } {
  const keys = Object.keys(response)
  const [key] = keys
  if (keys.length === 1 && (key === 'output' || key === 'error')) {
    const value = response[key]
    return { text: typeof value === 'string' ? value : JSON.stringify(value), isError: key === 'error' }
  }
  return { text: JSON.stringify(response), isError: false }
}

type MediaPart = Extract<Part, { kind: 'image' | 'audio' | 'document' }>

function mediaPart(part: JsonObject, param: string): MediaPart {
  const isInline = isJsonObject(part.inlineData)
  const field = isInline ? 'inlineData' : 'fileData'
  const { data, mimeType, fileUri } = camelKeys((part[field] ?? {}) as JsonObject)
  if (isInline && (typeof data !== 'string' || !BASE64.test(data))) {
    throw invalidField(`${param}.inlineData.data`, 'base64', data)
  }
  if (isInline && typeof mimeType !== 'string')
    throw invalidField(`${param}.inlineData.mimeType`, 'a media type', mimeType)
  if (!isInline) checkFileUri(fileUri, `${param}.fileData.fileUri`)
  const type = typeof mimeType === 'string' ? mimeType : ''
  if (type.startsWith('audio/') && isInline) {
    return { kind: 'audio', format: type.slice('audio/'.length), base64: standardBase64(data as string) }
  }
  const source: MediaSource = isInline
    ? { mediaType: type, base64: standardBase64(data as string) }
    : { url: fileUri as string }
  return { kind: type === '' || type.startsWith('image/') ? 'image' : 'document', source }
}

/** Google accepts both alphabets. */
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/

function standardBase64(data: string): string {
  return /[_-]/.test(data) ? data.replaceAll('-', '+').replaceAll('_', '/') : data
}

function checkFileUri(uri: unknown, param: string): void {
  const allowed = 'a public https URL'
  if (typeof uri !== 'string') throw invalidField(param, allowed, uri)
  const problem = mediaUrlProblem(uri)
  if (problem !== undefined) throw invalidField(param, `${allowed}: ${problem}`, uri)
  // A file of Google's File API belongs to the account of the operator.
  if (/^https:\/\/generativelanguage\.googleapis\.com\//i.test(uri)) {
    throw invalidField(param, `${allowed} outside of Google's File API: files cannot be uploaded here`, uri)
  }
}

function partsOf(content: JsonObject, param: string): JsonObject[] {
  const { parts } = content
  const list: unknown[] = Array.isArray(parts) ? parts : parts === undefined || parts === null ? [] : [parts]
  refuseLongList(list, bounds.partsPerContent, `${param}.parts`)
  return list.map((part, i) => {
    if (!isJsonObject(part)) throw invalidField(`${param}.parts[${i}]`, 'a part object', part)
    return camelKeys(part)
  })
}
