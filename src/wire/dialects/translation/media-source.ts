import type { MediaSource } from '../../../base/domain/conversation.ts'

/** Reads the URL of media. A `data:` URL with base64 becomes its media type and its data. */
export function mediaSourceOf(url: string): MediaSource {
  // A regular expression over megabytes of base64 would be slow: only the head is matched.
  const comma = url.indexOf(',')
  const head = /^data:([^;,]+)(?:;[^;,]+)*;base64$/i.exec(url.slice(0, Math.min(comma, 256)))
  return comma !== -1 && comma <= 256 && head?.[1] !== undefined
    ? { mediaType: head[1], base64: url.slice(comma + 1) }
    : { url }
}

/** Writes media as a URL: their address, or a `data:` URL. */
export function mediaUrlOf(source: MediaSource): string {
  return 'url' in source ? source.url : `data:${source.mediaType};base64,${source.base64}`
}
