import { z } from 'zod'
import { providerKinds } from '../domain/offer.ts'

/** How quotes and receipts name a server, whether it served, might have, or was excluded. */
export const serverFields = {
  provider: z.enum(providerKinds),
  endpoint: z.string().describe("Name of the endpoint, or the UUID of a hoster's."),
  hoster_id: z.string().nullable().describe('UUID; null where no hoster is meant.'),
  hoster_name: z.string().nullable(),
}
