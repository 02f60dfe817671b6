import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeDirectory } from './make-directory.ts'

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'switchyard-make-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

test('creates every missing directory with the mode, and accepts existing ones', () => {
  const path = join(directory, 'a/b/c')
  makeDirectory(path, 0o700)
  makeDirectory(path, 0o700)
  for (const each of ['a', 'a/b', 'a/b/c']) expect(statSync(join(directory, each)).mode & 0o777).toBe(0o700)
})

test('throws the error of the system, also when a file has the name', () => {
  const file = join(directory, 'file')
  writeFileSync(file, '')
  expect(() => makeDirectory(join(file, 'x'))).toThrow('ENOTDIR')
  expect(() => makeDirectory(file)).toThrow('EEXIST')
})

// mkdirSync with `recursive` never returns here.
test.skipIf(!existsSync('/proc/self'))('returns in a file system that takes no directories', () => {
  expect(() => makeDirectory('/proc/switchyard/data')).toThrow('ENOENT')
})
