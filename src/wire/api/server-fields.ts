import { z } from 'zod'
import { providerKinds } from '../../base/domain/offer.ts'

/** The fields that identify a server in quotes and receipts. */
export const serverFields = {
  provider: z.enum(providerKinds).describe('Kind of provider that runs the server.'),
  endpoint: z.string().describe('Name of the endpoint; for a hoster, the UUID of its endpoint.'),
  hoster_id: z.string().nullable().describe('UUID of the hoster; null for other kinds of providers.'),
  hoster_name: z.string().nullable().describe('Null for other kinds of providers.'),
}
