import { t } from '@lingui/core/macro'
import { type PaymentDriverName, providerLabels } from '../../../src/base/domain/money-drivers.ts'

/** @param manual the words for a payment that a person confirms, as they fit the place */
export function paymentWord(driver: PaymentDriverName, manual: string): string {
  if (driver === 'manual') return manual
  return driver === 'voucher' ? t`Voucher` : providerLabels[driver]
}

export function hasProvider(driver: PaymentDriverName): boolean {
  return driver !== 'manual' && driver !== 'voucher'
}
