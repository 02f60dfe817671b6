import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

// What makes the first start of a clone fast.

type Locked = {
  resolved?: string
  link?: boolean
  dev?: boolean
  optional?: boolean
  os?: string[]
  cpu?: string[]
  engines?: object
}
const { packages } = JSON.parse(readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8')) as {
  packages: Record<string, Locked>
}
const installed = Object.entries(packages).filter(([path, { link }]) => path.includes('node_modules/') && !link)

test('the lock file has the address of every package, so that npm ci asks for no metadata', () => {
  const without = installed.filter(([, { resolved }]) => !resolved?.startsWith('https://registry.npmjs.org/'))
  expect(without, 'Use npm run lock: .npmrc must not leave addresses out').toEqual([])
})

test('a user installs no TypeScript compiler', () => {
  const compilers = installed.filter(([path, { dev }]) => /node_modules\/(@typescript\/)?typescript/.test(path) && !dev)
  const advice = 'An optional peer of the name typescript makes npm install ours too, so it has another name here'
  expect(
    compilers.map(([path]) => path),
    advice,
  ).toEqual([])
})

test('a program for one platform is installed whatever Node the machine has', () => {
  const left = installed.filter(([, { optional, os, cpu, engines }]) => optional && (os ?? cpu) && engines)
  const advice = 'npm would leave these out on an older Node, and the pinned one could not run them. Use npm run lock'
  expect(
    left.map(([path]) => path),
    advice,
  ).toEqual([])
})
