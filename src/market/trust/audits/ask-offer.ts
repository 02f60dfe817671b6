import type { Offer } from '../../../base/domain/offer.ts'

/** What an offer answered to a chat request of the gateway itself. */
export interface AskedAnswer {
  readonly text: string
  /** The likeliest tokens at each position; empty if the server has no log probabilities. */
  readonly topTokens: readonly {
    readonly tokens: readonly { readonly token: string; readonly logprob: number }[]
  }[]
  /** The answer has reasoning or calls of tools too. */
  readonly hasOther?: true
}

/**
 * Sends a chat request to one offer, through the same steps as the request of a customer: it is admitted, held, billed
 * and recorded on the account of a house customer. Returns null if the offer did not answer.
 *
 * @param body a body of /v1/chat/completions without `model`
 */
export type AskOffer = (offer: Offer, body: object) => Promise<AskedAnswer | null>

/**
 * Begins a visit: requests that come from one house customer, so they share its connections like those of a real one.
 * Each visit is another house customer's.
 *
 * @param sharedBy the customer that shares what is asked. The hoster sees its pseudonyms in identifiers such as `user`, and its share of
 * the credit pays. Null: the gateway asks something of its own
 */
export type BeginVisit = (sharedBy: string | null) => AskOffer
