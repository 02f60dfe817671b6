import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { paymentProviderNames, payoutProviderNames } from '../../src/base/domain/money-drivers.ts'

const root = new URL('../..', import.meta.url)

/** Where a provider may be named: its own folders, its two registrations, and its name and label. */
const OWN =
  /\/(payments|payouts)\/(stripe|paddle)\/|\/payment-providers\.ts|\/create-payout-drivers\.ts|\/money-drivers\.ts/

test('the code asks what a provider can do, not what it is called', () => {
  const name = new RegExp([...paymentProviderNames, ...payoutProviderNames].join('|'), 'i')
  const files = globSync(['src/**/*.ts', 'console/src/**/*.{ts,tsx}', 'sql/functions/**/*.sql'], {
    cwd: root,
    exclude: ['**/*.test.ts'],
  })
  expect(files.length).toBeGreaterThan(500)
  const found = files
    .filter(path => !OWN.test(path))
    .filter(path => name.test(readFileSync(new URL(path, root), 'utf8')))
  expect(found, 'Give PaymentProvider a capability instead: src/money/payments/payment-driver.ts').toEqual([])
})
