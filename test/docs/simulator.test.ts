import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

// The lists of planted bugs grow, and only a report states how many one run had.
test.each(['docs/simulator.md', 'CHANGELOG.md', 'README.md', 'bench/README.md'])('%s counts no planted bugs', path => {
  const page = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
  expect(page.match(/\b\d+ (planted |SQL )?bugs\b/g)).toBeNull()
})
