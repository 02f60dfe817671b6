/** How the states of batches of payouts look. */
export const batchMarks = { prepared: 'warn', approved: 'warn', settled: 'ok', cancelled: 'off' } as const
