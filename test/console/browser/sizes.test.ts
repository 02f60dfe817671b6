import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'

const dist = fileURLToPath(new URL('../../../console/dist/', import.meta.url))
const manifest = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8')) as Record<string, Chunk>

interface Chunk {
  readonly file: string
  readonly isEntry?: boolean
  readonly isDynamicEntry?: boolean
  readonly imports?: readonly string[]
  readonly css?: readonly string[]
}

/** In bytes, compressed with gzip: scripts and styles that a screen needs. Fonts come later and do not block. */
const ROUTE_BYTES_MAX = 252_000

/** Returns the files that a browser loads for a chunk. */
function filesOf(name: string, found = new Set<string>()): Set<string> {
  const { file, imports = [], css = [] } = manifest[name]!
  if (found.has(file)) return found
  for (const each of [file, ...css]) found.add(each)
  for (const each of imports) filesOf(each, found)
  return found
}

const gzipped = (file: string) => gzipSync(readFileSync(join(dist, file))).length

test('each screen loads at most 252 kB', () => {
  const entry = Object.keys(manifest).find(name => manifest[name]!.isEntry)!
  const screens = Object.keys(manifest).filter(name => manifest[name]!.isDynamicEntry)
  expect(screens.length).toBeGreaterThan(5)
  const sizes = screens.map(name => {
    const files = filesOf(name, filesOf(entry))
    return { name, bytes: [...files].reduce((sum, file) => sum + gzipped(file), 0) }
  })
  expect(sizes.filter(({ bytes }) => bytes > ROUTE_BYTES_MAX)).toEqual([])
})
