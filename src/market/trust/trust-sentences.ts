/** What would raise the trust score of a hoster. */
export const trustSentences = {
  'trust.requests': '{count} more requests of customers.',
  'trust.audits': '{count} more audits. They arrive by themselves, the more often the more traffic the models have.',
  'trust.days': '{count} more days on the market.',
  'trust.honesty_bound': 'More audits passed: the bound is {bound} and must reach {needs}.',
  'trust.verify': 'Verify a domain and a payout account: the cap rises from 0.7 to 0.9.',
  'trust.contract': 'A contract with the operator: the cap rises to 1.',
  'trust.reliability.few': 'More requests of several customers: few results give a low bound.',
  'trust.honesty.few': 'More audits: few results give a low bound.',
  'trust.conformance.few': 'More answers: few results give a low bound.',
  'trust.reliability.faults':
    'Fewer failed requests. A failure counts for two successes and loses half of its weight in seven days.',
  'trust.honesty.faults': 'Fewer failed audits: serve the named model and report the tokens that it generates.',
  'trust.conformance.faults':
    'Usage in every answer, valid JSON, no more than `max_tokens`, and the name of the requested model.',
} as const
