import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { programIn } from './own-command.ts'

let home: string
const at = (...parts: string[]) => join(home, ...parts)

/** Creates a package with its program. */
function createPackage(root: string): string {
  mkdirSync(join(root, 'bin'), { recursive: true })
  writeFileSync(join(root, 'bin/switchyard'), '')
  return root
}

beforeAll(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'switchyard-own-command-')))
  for (const directory of ['usr/bin', 'other/bin']) mkdirSync(at(directory), { recursive: true })
  writeFileSync(at('other/bin/switchyard'), '')
})
afterAll(() => rmSync(home, { recursive: true }))

test('in a clone it is npx, elsewhere the path of its program', () => {
  const root = createPackage(at('my clone'))
  expect(programIn({ root, cwd: root, path: at('usr/bin') })).toBe('npx switchyard')
  expect(programIn({ root, cwd: home, path: '' })).toBe(`'${root}/bin/switchyard'`)
  expect(programIn({ root, cwd: join(root, 'bench'), path: '' })).toBe(`'${root}/bin/switchyard'`)
})

test('an installed package has its name where the PATH leads to it', () => {
  const root = createPackage(at('usr/lib/node_modules/@switchyard-gateway/switchyard'))
  const path = `${at('none')}:${at('usr/bin')}`
  const absolute = `${root}/bin/switchyard`
  expect(programIn({ root, cwd: home, path })).toBe(absolute)
  symlinkSync('../lib/node_modules/@switchyard-gateway/switchyard/bin/switchyard', at('usr/bin/switchyard'))
  expect(programIn({ root, cwd: home, path })).toBe('switchyard')
  // Another program of that name comes first.
  expect(programIn({ root, cwd: home, path: `${at('other/bin')}:${path}` })).toBe(absolute)
  rmSync(at('usr/bin/switchyard'))
})

test('a package in a project is run by npx in that project; the PATH of npm itself does not count', () => {
  const root = createPackage(at('project/node_modules/@switchyard-gateway/switchyard'))
  const scripts = at('project/node_modules/.bin')
  mkdirSync(scripts)
  symlinkSync('../@switchyard-gateway/switchyard/bin/switchyard', join(scripts, 'switchyard'))
  expect(programIn({ root, cwd: at('project'), path: scripts })).toBe('npx switchyard')
  expect(programIn({ root, cwd: home, path: scripts })).toBe(`${root}/bin/switchyard`)
})
