// Judges canonical forms: reads documents and what was made of them from stdin,
// and writes one line of JSON for each that JavaScript sees in another way, then
// {"judged": N}. With "print" as argument it writes the form it wants instead,
// one JSON string (null for what is no JSON) a line.
//
// A record on stdin is four parts, each a 32-bit big-endian length and so many
// bytes: the document, the canonical form (empty when it was refused), the
// secret, the signature.
'use strict';
const { createHmac } = require('node:crypto');

const print = process.argv[2] === 'print';
const sign = (secret, body) => createHmac('sha1', secret).update(body).digest('hex');

function stringify(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return null;
  }
}

function judge(document, form, secret, signature) {
  const want = stringify(document.toString('utf8'));
  if (print) return JSON.stringify(want);
  if (form.length === 0) {
    return want === null ? '' : JSON.stringify({ problem: 'refused a document that is JSON', want });
  }
  if (want === null) return JSON.stringify({ problem: 'took a document that is no JSON' });
  if (!form.equals(Buffer.from(want))) return JSON.stringify({ problem: 'another form', want });
  const again = stringify(form.toString('utf8'));
  if (again !== want) return JSON.stringify({ problem: 'no fixpoint', want: again });
  const secretText = secret.toString('utf8');
  if (sign(secretText, form) !== signature.toString()) return JSON.stringify({ problem: 'signature over the bytes' });
  if (sign(secretText, again) !== signature.toString()) return JSON.stringify({ problem: 'signature over JSON.stringify' });
  return '';
}

let pending = Buffer.alloc(0);
let judged = 0;

process.stdin.on('data', (chunk) => {
  pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
  const lines = [];
  let offset = 0;
  for (;;) {
    const parts = [];
    let at = offset;
    while (parts.length < 4 && at + 4 <= pending.length) {
      const end = at + 4 + pending.readUInt32BE(at);
      if (end > pending.length) break;
      parts.push(pending.subarray(at + 4, end));
      at = end;
    }
    if (parts.length < 4) break;
    const line = judge(...parts);
    if (print) lines.push(line);
    else if (line !== '') lines.push(JSON.stringify({ index: judged, ...JSON.parse(line) }));
    judged++;
    offset = at;
  }
  pending = pending.subarray(offset);
  if (lines.length > 0) process.stdout.write(lines.join('\n') + '\n');
});

process.stdin.on('end', () => {
  if (!print) process.stdout.write(JSON.stringify({ judged }) + '\n');
});
