/** A part of a body whose length is not known yet (RFC 9112, 7.1). Not for an empty text, which would end the body. */
export function encodeChunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}
