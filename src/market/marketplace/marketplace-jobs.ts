/** What the job queue does for hosters. */
export interface MarketplaceJobs {
  /** Verifies a pending hoster. */
  verify(hosterId: string): Promise<void>
  /** Probes the models of a hoster that wait for it. */
  probe(hosterId: string): Promise<void>
  /** Applies the prices that have waited for their notice, and starts the probes that are due. */
  applyPrices(): Promise<void>
}
