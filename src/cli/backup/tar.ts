import { buffer } from 'node:stream/consumers'

/**
 * Tar archives with files and directories of short names, as PostgreSQL and `switchyard backup` write them: the format
 * of POSIX.1-1988 (ustar), which every tar program reads.
 */

/** A file or directory of an archive. A directory has no content. */
export interface TarEntry {
  /** A relative path, with `/` between its parts. */
  readonly name: string
  readonly type: 'file' | 'directory'
  /** Bytes of `content`. */
  readonly size: number
  /** In an archive that is read: to be read to its end, or not at all, before the next entry is requested. */
  readonly content: AsyncIterable<Buffer>
}

const BLOCK_BYTES = 512
const TYPES = { '0': 'file', '\0': 'file', '5': 'directory' } as const

/**
 * Yields the bytes of an archive with these entries. Throws RangeError if a name or a size does not fit, or if the
 * content of an entry has another size than announced.
 */
export async function* writeTar(entries: AsyncIterable<TarEntry>): AsyncGenerator<Buffer> {
  for await (const entry of entries) {
    yield header(entry)
    let written = 0
    for await (const chunk of entry.content) {
      written += chunk.length
      yield chunk
    }
    if (written !== entry.size)
      throw new RangeError(`${entry.name} has ${written} bytes instead of the announced ${entry.size}`)
    yield Buffer.alloc(paddingAfter(entry.size))
  }
  yield Buffer.alloc(2 * BLOCK_BYTES)
}

/**
 * Yields the entries of an archive, each once its header has arrived. Skips content that the caller does not read.
 * Throws an Error if the bytes are no archive, end too early, or contain other types of entries.
 */
export async function* readTar(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
  const input = new ByteReader(chunks)
  try {
    for (;;) {
      const block = await input.exactly(BLOCK_BYTES)
      // The end is two empty blocks.
      if (block.every(byte => byte === 0)) return await input.skipAll()
      const entry = parseHeader(block)
      const content = input.next(entry.size)
      yield { ...entry, content }
      for await (const _ of content);
      await input.exactly(paddingAfter(entry.size))
    }
  } finally {
    await input.close()
  }
}

function header({ name, type, size }: TarEntry): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES)
  const fullName = type === 'directory' ? `${name}/` : name
  if (Buffer.byteLength(fullName) > 100) throw new RangeError(`the name ${name} is too long for a tar archive`)
  block.write(fullName, 0)
  block.write(octal(type === 'directory' ? 0o700 : 0o600, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  block.write(octal(size, 11), 124)
  block.write(octal(Math.floor(Date.now() / 1000), 11), 136)
  block.write(type === 'directory' ? '5' : '0', 156)
  block.write('ustar\x0000', 257)
  block.write(`${octal(checksum(block), 6)}\0 `, 148)
  return block
}

function parseHeader(block: Buffer): Omit<TarEntry, 'content'> {
  if (Number.parseInt(text(block, 148, 8), 8) !== checksum(block)) throw new Error('it has a damaged header')
  const prefix = text(block, 345, 155)
  const name = `${prefix === '' ? '' : `${prefix}/`}${text(block, 0, 100)}`
  const flag = block.toString('latin1', 156, 157)
  const type = TYPES[flag as keyof typeof TYPES]
  if (type === undefined) throw new Error(`the type of its entry ${name} is not supported`)
  const size = Number.parseInt(text(block, 124, 12), 8)
  if (!Number.isSafeInteger(size)) throw new Error(`the size of its entry ${name} is invalid`)
  return { name: name.replace(/\/$/, ''), type, size: type === 'directory' ? 0 : size }
}

/** The sum of the bytes of a header, its own field counted as blanks. */
function checksum(block: Buffer): number {
  return block.reduce((sum, byte, index) => sum + (index >= 148 && index < 156 ? 0x20 : byte), 0)
}

function octal(value: number, digits: number): string {
  const text = value.toString(8).padStart(digits, '0')
  if (text.length > digits) throw new RangeError(`${value} does not fit into a tar header`)
  return text
}

/** Reads a field, which a zero byte ends unless it is full. */
function text(block: Buffer, offset: number, length: number): string {
  const field = block.subarray(offset, offset + length)
  const end = field.indexOf(0)
  return field.toString('utf8', 0, end === -1 ? length : end).trim()
}

const paddingAfter = (size: number) => (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES

class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>
  #rest: Buffer = Buffer.alloc(0)

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** Yields the next `bytes` bytes. */
  async *next(bytes: number): AsyncGenerator<Buffer> {
    for (let missing = bytes; missing > 0; ) {
      if (this.#rest.length === 0) await this.#fill()
      const chunk = this.#rest.subarray(0, missing)
      this.#rest = this.#rest.subarray(chunk.length)
      missing -= chunk.length
      yield chunk
    }
  }

  exactly(bytes: number): Promise<Buffer> {
    return buffer(this.next(bytes))
  }

  /** Reads to the end of the input, so that its source can report a late error. */
  async skipAll(): Promise<void> {
    while (!(await this.#chunks.next()).done);
  }

  /** Closes the source, which may hold a file or a connection. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#chunks.next()
    if (done) throw new Error('it ends too early')
    this.#rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  }
}
