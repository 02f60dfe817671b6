import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

// What makes the first start of a clone fast.

type Locked = { resolved?: string; link?: boolean; dev?: boolean }
const { packages } = JSON.parse(readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8')) as {
  packages: Record<string, Locked>
}
const installed = Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link)

test('the lock file has the address of every package, so that npm ci asks for no metadata', () => {
  const without = installed.filter(([, { resolved }]) => !resolved?.startsWith('https://registry.npmjs.org/'))
  expect(without, 'Run npm install --package-lock-only again: .npmrc must not leave addresses out').toEqual([])
})

test('a user installs no TypeScript compiler', () => {
  const compilers = installed.filter(([path, { dev }]) => /node_modules\/(@typescript\/)?typescript/.test(path) && !dev)
  const advice = 'An optional peer of the name typescript makes npm install ours too, so it has another name here'
  expect(
    compilers.map(([path]) => path),
    advice,
  ).toEqual([])
})
