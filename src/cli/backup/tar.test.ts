import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { readTar, type TarEntry, writeTar } from './tar.ts'

async function* each<T>(...items: T[]): AsyncGenerator<T> {
  yield* items
}

const file = (name: string, content: string, size = content.length): TarEntry => ({
  ...{ name, type: 'file', size, content: each(Buffer.from(content)) },
})
const directory = (name: string): TarEntry => ({ name, type: 'directory', size: 0, content: each() })

async function contents(chunks: AsyncIterable<Uint8Array>): Promise<unknown[]> {
  const found = []
  for await (const { name, type, size, content } of readTar(chunks)) found.push([name, type, size, await text(content)])
  return found
}

test('an archive has the same entries when it is read, whatever the size of its chunks', async () => {
  const big = 'x'.repeat(70_000)
  const archive = await buffer(
    writeTar(each(file('a', ''), directory('d'), file('d/b', big), file('c', 'y'.repeat(512)))),
  )
  const expected = [
    ['a', 'file', 0, ''],
    ['d', 'directory', 0, ''],
    ['d/b', 'file', 70_000, big],
    ['c', 'file', 512, 'y'.repeat(512)],
  ]
  for (const size of [1, 511, 512, 513, 65_536, archive.length]) {
    const chunks = Array.from({ length: Math.ceil(archive.length / size) }, (_, i) =>
      archive.subarray(i * size, (i + 1) * size),
    )
    expect(await contents(each(...chunks)), `chunks of ${size}`).toEqual(expected)
  }
})

test('the tar program reads it, and writes what can be read', async () => {
  const archive = await buffer(writeTar(each(directory('d'), file('d/b', 'hello'))))
  const place = mkdtempSync(join(tmpdir(), 'switchyard-tar-'))
  try {
    writeFileSync(join(place, 'a.tar'), archive)
    execFileSync('tar', ['xf', 'a.tar'], { cwd: place })
    expect(readFileSync(join(place, 'd', 'b'), 'utf8')).toBe('hello')
    execFileSync('tar', ['cf', 'b.tar', '--format=ustar', 'd'], { cwd: place })
    expect(await contents(each(readFileSync(join(place, 'b.tar'))))).toEqual([
      ['d', 'directory', 0, ''],
      ['d/b', 'file', 5, 'hello'],
    ])
  } finally {
    rmSync(place, { recursive: true })
  }
})

test('content that is not read is skipped, and the source is closed', async () => {
  let isClosed = false
  const source = async function* () {
    try {
      yield* writeTar(each(file('a', 'x'.repeat(2_000)), file('b', 'y')))
    } finally {
      isClosed = true
    }
  }
  const names = []
  for await (const { name } of readTar(source())) names.push(name)
  expect([names, isClosed]).toEqual([['a', 'b'], true])
  isClosed = false
  for await (const _ of readTar(source())) break
  expect(isClosed).toBe(true)
})

test('what does not fit into an archive is refused', async () => {
  const write = (entry: TarEntry) => buffer(writeTar(each(entry)))
  await expect(write(file('x'.repeat(101), ''))).rejects.toThrow('is too long')
  await expect(write(file('a', 'two', 2))).rejects.toThrow('a has 3 bytes instead of the announced 2')
  await expect(write(file('a', '', 8 ** 11))).rejects.toThrow('does not fit')
})

test('damaged archives and other types of entries are refused', async () => {
  const archive = await buffer(writeTar(each(file('a', 'hello'))))
  await expect(contents(each(archive.subarray(0, 600)))).rejects.toThrow('it ends too early')
  await expect(contents(each(archive.subarray(0, 1024)))).rejects.toThrow('it ends too early')
  const changed = Buffer.from(archive)
  changed[0] = 0x62
  await expect(contents(each(changed))).rejects.toThrow('it has a damaged header')
})
