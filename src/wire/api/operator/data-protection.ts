import { z } from 'zod'

// What is kept of people and customers: handed out, and erased.

const revokedKeys = z.int().describe('Keys that were in use, and are revoked.')

export const erasedPerson = z
  .object({ deleted: z.literal(true), revoked_keys: revokedKeys })
  .meta({ id: 'ErasedPerson', example: { deleted: true, revoked_keys: 2 } })
export type ErasedPerson = z.infer<typeof erasedPerson>

export const erasedCustomer = z
  .object({
    deleted: z.literal(true),
    revoked_keys: revokedKeys,
    balance_usd: z.number().describe('Stays in the books under the id of the customer.'),
  })
  .meta({ id: 'ErasedCustomer', example: { deleted: true, revoked_keys: 2, balance_usd: 0.25 } })
export type ErasedCustomer = z.infer<typeof erasedCustomer>

/** An attachment, sent while it is read. */
export const personalDataExport = z
  .object({
    about: z.record(z.string(), z.string()).describe('The id, the e-mail address, and when it was made.'),
    tables: z
      .record(z.string(), z.array(z.record(z.string(), z.unknown())))
      .describe('The rows of each table as they are stored, without secrets. Amounts are whole nano-USD.'),
  })
  .meta({
    id: 'PersonalDataExport',
    example: {
      about: {
        customer_id: '0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
        email: 'ada@example.com',
        made_at: '2026-11-29T12:00:00.000Z',
      },
      tables: { customer: [{ email: 'ada@example.com', account_tier: 'standard' }] },
    },
  })
