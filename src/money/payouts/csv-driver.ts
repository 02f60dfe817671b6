import { ApiError } from '../../base/domain/errors.ts'
import { usdText } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Said } from '../../base/domain/said.ts'
import { csvRecord } from '../../base/runtime/csv.ts'
import type { PayoutDriver } from './payout-driver.ts'

/** Writes transfers to a file for a bank. Operators say what has arrived. */
export function createCsvDriver(): PayoutDriver {
  return {
    name: 'csv',
    isLive: true,
    async enroll(_, __, details) {
      if (details === null) throw invalid('account', sayRefusal('refusal.bank_account'))
      const account = bankAccountOf(details.account)
      return {
        destination: account,
        holder: details.holder,
        identities: [`account:${account}`],
        isReady: true,
        note: null,
        url: null,
      }
    },
    async pay(batch) {
      const records = batch.map(({ reference, holder, destination, amountNanos, currency, hosterId }) =>
        csvRecord([
          reference,
          holder ?? '',
          destination,
          { decimal: usdText(amountNanos) },
          currency.toUpperCase(),
          hosterId,
        ]),
      )
      return { file: [csvRecord(columns), ...records].join(''), refs: new Map() }
    },
    look: async () => ({ state: 'pending' }),
    provider: null,
  }
}

const columns = ['reference', 'holder', 'account', 'amount', 'currency', 'hoster_id']

/** Returns an account number without blanks and hyphens, in upper case. Throws `invalid_value` unless it can be one. */
export function bankAccountOf(typed: string): string {
  const account = typed.toUpperCase().replace(/[\s-]/g, '')
  if (!/^[A-Z0-9]{4,34}$/.test(account)) {
    throw invalid('account', sayRefusal('refusal.bank_account_length'))
  }
  // Two letters and two digits: an IBAN, with its check digits (ISO 13616).
  if (/^[A-Z]{2}\d{2}/.test(account) && remainderOf97(account) !== 1) {
    throw invalid('account', sayRefusal('refusal.iban_digits'))
  }
  return account
}

function remainderOf97(iban: string): number {
  const digits = `${iban.slice(4)}${iban.slice(0, 4)}`.replace(/[A-Z]/g, letter => String(letter.charCodeAt(0) - 55))
  return Number(BigInt(digits) % 97n)
}

function invalid(param: string, message: Said): ApiError {
  return new ApiError('invalid_value', { param, message })
}
