import { type PayoutDriverName, payoutLabels } from '../../../src/base/domain/money-drivers.ts'

/** @param bank the word for a bank transfer, as it fits the place */
export function payoutWord(driver: PayoutDriverName, bank: string): string {
  return driver === 'csv' ? bank : payoutLabels[driver]
}
