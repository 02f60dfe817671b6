import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { screens } from '../../../console/src/prerender/screens.ts'

const dist = fileURLToPath(new URL('../../../console/dist/', import.meta.url))
const manifest = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8')) as Record<string, Chunk>

interface Chunk {
  readonly file: string
  readonly isEntry?: boolean
  readonly imports?: readonly string[]
  readonly css?: readonly string[]
}

/**
 * In bytes, compressed with gzip: scripts and styles that a screen needs before it is drawn. Fonts come later and do not block,
 * and so do dialogs and the rendering of answers.
 */
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
  expect(screens.length).toBeGreaterThan(5)
  const sizes = screens.map(({ path, modules }) => {
    const files = filesOf(entry)
    for (const module of modules) filesOf(`src/${module}`, files)
    return { path, bytes: [...files].reduce((sum, file) => sum + gzipped(file), 0) }
  })
  expect(sizes.filter(({ bytes }) => bytes > ROUTE_BYTES_MAX)).toEqual([])
})
