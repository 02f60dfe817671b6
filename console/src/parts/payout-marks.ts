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
