/** What the job queue does for hosters. */
export interface MarketplaceJobs {
  /** Verifies a pending hoster. */
  verify(hosterId: string): Promise<void>
  /** Applies the prices that have waited for their notice. Returns how many there were. */
  applyPrices(): Promise<number>
}
