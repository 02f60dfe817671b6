import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline, type Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline as pipelineDone } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { readTar, type TarEntry, writeTar } from './tar.ts'

/** The last entry of an archive: the SHA-256 of every other file, one line each, as sha256sum prints them. */
const CHECKSUMS = 'checksums.sha256'

/** Ends the name of a file until all of it is on the disk. */
export const UNFINISHED = '.unfinished'

/** The file is no archive of `writeArchive`, or it is incomplete or damaged. The message is for the operator. */
export class DamagedArchive extends Error {
  override name = 'DamagedArchive'
}

/** The bytes of an archive cannot be read now, and may be complete. The message is for the operator. */
export class UnreadableArchive extends Error {
  override name = 'UnreadableArchive'
}

/** An archive that can be read. */
export interface ArchiveSource {
  /** Its path or address, for messages. */
  readonly name: string
  /** Throws UnreadableArchive, also later, by the stream. */
  open(): Promise<Readable>
}

/** Returns the archive of this file. */
export function fileSource(path: string): ArchiveSource {
  return {
    name: path,
    async open() {
      const file = await open(path).catch(error => {
        throw new UnreadableArchive(`Cannot read ${path}: ${systemErrorText(error)}.`, { cause: error })
      })
      return createReadStream('', { fd: file })
    },
  }
}

/**
 * Writes a compressed tar archive of these entries and their checksums, readable by its owner alone. The file gets its
 * name when all of it is on the disk; until then it is called `<path>.unfinished`. Resolves with its size in bytes.
 * Throws an Error for the operator if one of the two files exists or cannot be written, and the errors of `entries`.
 */
export async function writeArchive(path: string, entries: AsyncIterable<TarEntry>): Promise<number> {
  const unfinished = path + UNFINISHED
  requireAbsent(path)
  const file = (await create(unfinished)).createWriteStream({ flush: true })
  try {
    await pipelineDone(archiveBytes(entries), file)
    requireAbsent(path)
    await rename(unfinished, path)
    await syncDirectory(dirname(path))
    return file.bytesWritten
  } catch (error) {
    await rm(unfinished, { force: true })
    throw isFileError(error) ? new Error(`Cannot write ${path}: ${systemErrorText(error)}.`, { cause: error }) : error
  }
}

/** Returns a compressed tar archive of these entries and their checksums. The stream fails with the errors of `entries`. */
export function archiveBytes(entries: AsyncIterable<TarEntry>): Readable {
  // zstd adds no checksum: it would not name the damaged file, as ours do. The reader of the stream gets the errors.
  return pipeline(writeTar(withChecksums(entries)), createZstdCompress(), () => {})
}

/**
 * Yields the entries of an archive of `archiveBytes`, without the checksums. At the end it compares them: what was read
 * counts only when the iteration has ended without an error. Throws DamagedArchive or UnreadableArchive.
 */
export async function* readArchive({ name: path, open }: ArchiveSource): AsyncGenerator<TarEntry> {
  // The generator reports errors when it reads; the callback only keeps them from being thrown twice.
  const bytes = pipeline(await open(), createZstdDecompress(), () => {})
  const sums = new Map<string, string>()
  let listed: string | undefined
  const entries = explained(path, readTar(bytes))
  for await (const entry of entries) {
    if (listed !== undefined) throw damaged(path, 'something follows its checksums')
    if (entry.name === CHECKSUMS) {
      listed = await text(explained(path, entry.content, CHECKSUMS))
      requireEqual(path, listed, sums)
    } else if (entry.type === 'directory') yield entry
    else {
      const content = explained(path, hashed(entry, sums), entry.name)
      yield { ...entry, content }
      // Reads and hashes what the caller has left out.
      for await (const _ of content);
    }
  }
  if (listed === undefined) throw damaged(path, 'it has no checksums')
}

/** Returns a file of an archive with this content. */
export function fileEntry(name: string, data: string | Buffer): TarEntry {
  const bytes = Buffer.from(data)
  return { name, type: 'file', size: bytes.length, content: chunksOf(bytes) }
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

async function* withChecksums(entries: AsyncIterable<TarEntry>): AsyncGenerator<TarEntry> {
  const sums = new Map<string, string>()
  for await (const entry of entries)
    yield entry.type === 'directory' ? entry : { ...entry, content: hashed(entry, sums) }
  yield fileEntry(CHECKSUMS, listOf(sums))
}

/** Passes the content on and notes its checksum at the end. */
async function* hashed({ name, content }: TarEntry, sums: Map<string, string>): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  for await (const chunk of content) {
    hash.update(chunk)
    yield chunk
  }
  sums.set(name, hash.digest('hex'))
}

const listOf = (sums: ReadonlyMap<string, string>) => [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join('')

/** Throws DamagedArchive unless the list of checksums is that of these files. */
function requireEqual(path: string, listed: string, sums: ReadonlyMap<string, string>): void {
  if (listed === listOf(sums)) return
  const lines = new Set(listed.split('\n'))
  const [wrong] = [...sums].find(([name, sum]) => !lines.has(`${sum}  ${name}`)) ?? []
  throw damaged(
    path,
    wrong === undefined ? `${CHECKSUMS} lists other files` : `the checksum of ${wrong} in it is wrong`,
  )
}

/** Turns the errors of reading into DamagedArchive. `name` is the file of the archive that is being read. */
async function* explained<T>(path: string, source: AsyncIterable<T>, name?: string): AsyncGenerator<T> {
  try {
    yield* source
  } catch (error) {
    if (error instanceof DamagedArchive || error instanceof UnreadableArchive) throw error
    throw damaged(path, `${name === undefined ? '' : `reading stopped at ${name}: `}${(error as Error).message}`)
  }
}

function damaged(path: string, reason: string): DamagedArchive {
  return new DamagedArchive(
    `${path} is not a complete backup, or it is damaged: ${reason}. Copy the backup again from where it was made, or use another one.`,
  )
}

async function create(unfinished: string): Promise<FileHandle> {
  try {
    return await open(unfinished, 'wx', 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new Error(`Cannot write ${unfinished}: ${systemErrorText(error)}.`, { cause: error })
    throw new Error(
      `${unfinished} already exists: another backup writes it, or an earlier one was interrupted. If none is running, delete it.`,
    )
  }
}

function requireAbsent(path: string): void {
  if (existsSync(path)) throw new Error(`${path} already exists. Choose another name, or delete that file first.`)
}

/** Whether a system call on a file failed. Those on connections have other names. */
export function isFileError(error: unknown): boolean {
  return (
    error instanceof Error &&
    'syscall' in error &&
    ['open', 'write', 'fsync', 'close', 'rename'].includes(String(error.syscall))
  )
}

/** Resolves when the names of the files in the directory survive a loss of power. */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, 'r')
  await handle.sync()
}
