/** How the states of payouts look. */
export const payoutMarks = {
  prepared: 'warn',
  approved: 'warn',
  sending: 'warn',
  paid: 'ok',
  failed: 'danger',
  returned: 'danger',
  cancelled: 'off',
} as const
/** How the states of batches of payouts look. */
export const batchMarks = { prepared: 'warn', approved: 'warn', settled: 'ok', cancelled: 'off' } as const
