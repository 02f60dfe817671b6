import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadConfig } from './config.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-corpus-'))
afterAll(() => rmSync(directory, { recursive: true }))

function load(name: string) {
  const file = join(directory, 'switchyard.yaml')
  writeFileSync(file, `trust: { corpus_file: ${name} }`)
  return loadConfig({ env: {}, cwd: directory, file }).trust.corpus
}

test('a file has texts that lines of --- divide, relative to the working directory', () => {
  writeFileSync(join(directory, 'texts.txt'), 'one\nmore of one\n---\n\ntwo -- still two\n---\r\nthree\n---\n')
  expect(load('texts.txt')).toEqual(['one\nmore of one', 'two -- still two', 'three'])
})

test('a folder has the texts of its .txt and .md files', () => {
  mkdirSync(join(directory, 'texts', 'deeper'), { recursive: true })
  writeFileSync(join(directory, 'texts', 'a.txt'), 'one\n---\ntwo')
  writeFileSync(join(directory, 'texts', 'deeper', 'b.MD'), 'three')
  writeFileSync(join(directory, 'texts', 'c.json'), '{}')
  expect(load('texts')).toEqual(['one', 'two', 'three'])
})

test.each([
  ['too few texts', Buffer.from('secret words\n---\ntwo'), /few\.txt: must have at least 3 texts/],
  ['bytes that are no text', Buffer.from([0x61, 0xff]), /few\.txt: is not UTF-8 text/],
  ['too many bytes', Buffer.alloc(16_777_217, 'a'), /few\.txt: has more than 16777216 bytes/],
])('a file with %s stops the start', (_, bytes, message) => {
  writeFileSync(join(directory, 'few.txt'), bytes)
  expect(() => load('few.txt')).toThrow(message)
  expect(() => load('few.txt')).not.toThrow(/secret words/)
})

test('a file that is missing stops the start', () => {
  expect(() => load('none.txt')).toThrow(/none\.txt: cannot be read/)
})
