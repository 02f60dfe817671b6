import type {
  AudioPart,
  CacheHint,
  DocumentPart,
  ImagePart,
  MediaSource,
  RefusalPart,
  TextPart,
} from '../../../base/domain/conversation.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { mediaSourceOf } from '../translation/media-source.ts'
import type { ContentPart } from './responses-request-schema.ts'

/** Reads the checked content of a message: a text or parts. Annotations are left out. */
export function readContent(
  content: string | readonly ContentPart[],
): (TextPart | ImagePart | DocumentPart | RefusalPart | AudioPart)[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }]
  return content.map(readPart)
}

/** Reads the checked output of a tool, which has no audio. A refusal, which tools do not make, becomes text. */
export function readToolOutput(output: string | readonly ContentPart[]): (TextPart | ImagePart | DocumentPart)[] {
  return readContent(output).flatMap(part =>
    part.kind === 'refusal' ? [{ kind: 'text' as const, text: part.text }] : part.kind === 'audio' ? [] : [part],
  )
}

function readPart(part: ContentPart): TextPart | ImagePart | DocumentPart | RefusalPart | AudioPart {
  const cache = cacheHint(part)
  switch (part.type) {
    case 'input_text':
    case 'output_text':
      return { kind: 'text', text: part.text, ...cache }
    case 'refusal':
      return { kind: 'refusal', text: part.refusal }
    case 'input_image':
      return {
        kind: 'image',
        source: mediaSourceOf(part.image_url),
        ...(part.detail && part.detail !== 'auto' && { detail: part.detail }),
        ...cache,
      }
    case 'input_audio':
      return { kind: 'audio', base64: part.input_audio.data, format: part.input_audio.format }
    case 'input_file':
      return {
        kind: 'document',
        source: fileSource(part.file_data ?? '', part.file_url),
        ...(part.filename && { name: part.filename }),
        ...cache,
      }
  }
}

function fileSource(data: string, url: string | null | undefined): MediaSource {
  if (url) return { url }
  return data.includes(':') ? mediaSourceOf(data) : { mediaType: 'application/pdf', base64: data }
}

function cacheHint({ prompt_cache_breakpoint: breakpoint }: JsonObject): { cache: CacheHint } | undefined {
  if (!isJsonObject(breakpoint)) return undefined
  return { cache: breakpoint.ttl === '12h' ? 'long' : 'short' }
}
