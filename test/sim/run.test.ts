import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const program = fileURLToPath(new URL('../../sim/run.ts', import.meta.url))

test.each([
  [['--seeds', '1,000'], '--seeds must be a whole number'],
  [['--seeds', '0'], '--seeds must be a whole number'],
  [['--seed', 'x'], '--seed must be a whole number'],
  [['--prove', '--only', 'price-rounds-twice', '--only', 'price-rounds-thrice'], 'price-rounds-thrice'],
  [['--sedes', '5'], "Unknown option '--sedes'"],
])('the simulator exits with 2 on invalid arguments: %s', (args, message) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr).toContain(message)
})
