import type { MediaSource, Part, ToolCallPart, ToolResultPart } from '../../../base/domain/conversation.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { argumentsObject, customInputArguments } from '../tool-arguments.ts'
import { flatToolName } from '../tool-names.ts'

/** Takes the place of a signature on a call that another model made: Gemini 3 refuses calls without any. */
export const SKIP_SIGNATURE = 'skip_thought_signature_validator'

/** Writes the parts of turns. Remembers the calls, because their results need the name of the function. */
export class ContentWriter {
  readonly #names = new Map<string, string>()

  /** Writes the parts of one turn. Only the first call of a turn needs a signature. */
  write(parts: readonly Part[]): JsonObject[] {
    let hasCall = false
    return parts.flatMap((part): JsonObject[] => {
      switch (part.kind) {
        case 'tool_call': {
          const call = this.#call(part, !hasCall)
          hasCall = true
          return [call]
        }
        case 'tool_result':
          return [this.#result(part)]
        default:
          return contentPart(part)
      }
    })
  }

  #call({ id, name, namespace, toolKind, arguments: text, seal }: ToolCallPart, isFirst: boolean): JsonObject {
    const flatName = flatToolName({ name, namespace })
    this.#names.set(id, flatName)
    const args = argumentsObject(toolKind === 'custom' ? customInputArguments(text) : text)
    const signature = seal?.family === 'google' ? seal.data : isFirst ? SKIP_SIGNATURE : undefined
    return { functionCall: { id, name: flatName, args }, ...(signature && { thoughtSignature: signature }) }
  }

  #result({ callId, content, isError }: ToolResultPart): JsonObject {
    const texts = content.flatMap(part => (part.kind === 'text' ? [part.text] : []))
    const media = content.flatMap(part => (part.kind === 'text' ? [] : [mediaPart(part.source, part.kind)]))
    return {
      functionResponse: {
        id: callId,
        name: this.#names.get(callId) ?? callId,
        response: { [isError ? 'error' : 'output']: texts.join('\n\n') },
        ...(media.length > 0 && { parts: media }),
      },
    }
  }
}

function contentPart(part: Part): JsonObject[] {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return part.text === '' ? [] : [{ text: part.text }]
    case 'image':
    case 'document':
      return [mediaPart(part.source, part.kind)]
    case 'audio':
      return [{ inlineData: { mimeType: `audio/${part.format}`, data: part.base64 } }]
    case 'reasoning': {
      const signature = part.seal?.data ? { thoughtSignature: part.seal.data } : {}
      // A signature without a thought belongs to the answer's text.
      return [part.text === '' ? { text: '', ...signature } : { text: part.text, thought: true, ...signature }]
    }
    case 'opaque':
      return part.dialect === 'gemini' ? [part.json] : []
    default:
      return []
  }
}

function mediaPart(source: MediaSource, kind: 'image' | 'document'): JsonObject {
  return 'url' in source
    ? { fileData: { fileUri: source.url, mimeType: mimeTypeOf(source.url, kind) } }
    : { inlineData: { mimeType: source.mediaType, data: source.base64 } }
}

/** Media types by the end of an address. Gemini does not guess them. */
const mimeTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
}

function mimeTypeOf(url: string, kind: 'image' | 'document'): string {
  const end = /\.([a-z]{2,4})(?:[?#]|$)/i.exec(url.slice(-2_048))?.[1]?.toLowerCase() ?? ''
  return mimeTypes[end] ?? (kind === 'image' ? 'image/jpeg' : 'application/pdf')
}
