use std::sync::OnceLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_election::time::Span;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_800_000_000;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// An issuer with a key of each kind.
struct Issuer {
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    rsa: RsaKeyPair,
}

impl Issuer {
    fn new() -> Issuer {
        Issuer {
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed: Ed25519KeyPair::generate().unwrap(),
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        }
    }

    /// One for all tests: to make an RSA key takes a while.
    fn shared() -> &'static Issuer {
        static ONE: OnceLock<Issuer> = OnceLock::new();
        ONE.get_or_init(Issuer::new)
    }

    fn ec_jwk(&self, id: &str) -> Value {
        let point = self.ec.public_key().as_ref();
        json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
    }

    fn jwks(&self) -> Value {
        // A sequence of a number of 257 bytes, the first of them zero, and one of three.
        let der = self.rsa.public_key().as_ref();
        let (modulus, exponent) = (&der[9..265], &der[267..]);
        json!({"keys": [
            self.ec_jwk("ec"),
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encoded(self.ed.public_key()), "alg": "EdDSA"},
            {"kty": "RSA", "kid": "rsa", "use": "sig", "n": encoded(modulus), "e": encoded(exponent)},
        ]})
    }

    fn sign(&self, header: &Value, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims));
        let random = SystemRandom::new();
        let signature = match header["alg"].as_str() {
            Some("EdDSA") => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
            Some("RS256") => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            _ => self.ec.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{signed}.{}", encoded(signature))
    }

    /// By the key for ES256.
    fn es256(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": "ec"}), &claims.to_string())
    }
}

fn parsed(jwks: &Value) -> Vec<Arc<Key>> {
    keys::parse(jwks.to_string().as_bytes()).unwrap().into_iter().map(Arc::new).collect()
}

fn rules() -> Rules {
    Rules::new("https://issuer.example", "baton")
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "baton", "sub": "repo:acme/app", "iat": NOW, "exp": NOW + 600})
}

/// The same with other claims; those that are null are left out.
fn with(changes: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn verified(text: &str) -> Result<Claims, Fault> {
    verified_at(text, NOW)
}

fn verified_at(text: &str, now: u64) -> Result<Claims, Fault> {
    let now = WallTime::from_unix_millis(now * 1_000);
    verify::verify(text, &parsed(&Issuer::shared().jwks()), &rules(), now)
}

fn judged(changes: Value) -> Result<Claims, Fault> {
    verified(&Issuer::shared().es256(&with(&changes)))
}

#[test]
fn each_algorithm_is_verified_by_its_own_key_only() {
    let issuer = Issuer::shared();
    for (algorithm, id) in [("ES256", "ec"), ("EdDSA", "ed"), ("RS256", "rsa")] {
        let text = issuer.sign(&json!({"alg": algorithm, "kid": id, "typ": "JWT"}), &claims().to_string());
        assert_eq!(verified(&text).unwrap().subject, "repo:acme/app", "{algorithm}");
        // The set has one key for each.
        let unnamed = issuer.sign(&json!({"alg": algorithm}), &claims().to_string());
        assert!(verified(&unnamed).is_ok(), "{algorithm}");
        for other in ["ec", "ed", "rsa"].into_iter().filter(|other| *other != id) {
            let text = issuer.sign(&json!({"alg": algorithm, "kid": other}), &claims().to_string());
            assert_eq!(verified(&text), Err(Fault::UnknownKey(other.to_string())), "{algorithm}");
        }
        let foreign = Issuer::new().sign(&json!({"alg": algorithm, "kid": id}), &claims().to_string());
        assert_eq!(verified(&foreign), Err(Fault::Signature), "{algorithm}");
    }
}

#[test]
fn no_algorithm_and_shared_secrets_are_refused() {
    let issuer = Issuer::shared();
    let body = format!("{}.", encoded(claims().to_string()));
    for name in ["none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS512", "PS256", "ES384", "es256"] {
        let header = encoded(json!({"alg": name, "kid": "ec"}).to_string());
        assert_eq!(verified(&format!("{header}.{body}")), Err(Fault::Algorithm(name.to_string())));
    }
    // The public key as the secret of HS256: whoever has the file could sign.
    let header = json!({"alg": "HS256", "kid": "ec"});
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims().to_string()));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, issuer.ec.public_key().as_ref());
    let text = format!("{signed}.{}", encoded(aws_lc_rs::hmac::sign(&key, signed.as_bytes())));
    assert_eq!(verified(&text), Err(Fault::Algorithm("HS256".to_string())));
    // A signature that is none.
    let header = encoded(json!({"alg": "ES256", "kid": "ec"}).to_string());
    assert_eq!(verified(&format!("{header}.{body}")), Err(Fault::Signature));
    let zeros = format!("{header}.{body}{}", encoded([0; 64]));
    assert_eq!(verified(&zeros), Err(Fault::Signature));
}

#[test]
fn keys_are_told_by_their_ids() {
    let (issuer, other) = (Issuer::shared(), Issuer::new());
    let two = json!({"keys": [issuer.ec_jwk("one"), other.ec_jwk("two")]});
    let verified = |text: &str, jwks: &Value| {
        verify::verify(text, &parsed(jwks), &rules(), WallTime::from_unix_millis(NOW * 1_000)).map(|_| ())
    };
    let sign = |issuer: &Issuer, header: Value| issuer.sign(&header, &claims().to_string());
    assert_eq!(verified(&sign(issuer, json!({"alg": "ES256", "kid": "one"})), &two), Ok(()));
    assert_eq!(verified(&sign(&other, json!({"alg": "ES256", "kid": "two"})), &two), Ok(()));
    assert_eq!(verified(&sign(issuer, json!({"alg": "ES256", "kid": "two"})), &two), Err(Fault::Signature));
    let unknown = Fault::UnknownKey("three".to_string());
    assert_eq!(verified(&sign(issuer, json!({"alg": "ES256", "kid": "three"})), &two), Err(unknown));
    assert_eq!(verified(&sign(issuer, json!({"alg": "ES256"})), &two), Err(Fault::NoKeyNamed(2)));
    assert_eq!(verified(&sign(issuer, json!({"alg": "EdDSA"})), &two), Err(Fault::NoKeyNamed(0)));
}

#[test]
fn odd_headers_are_refused() {
    let issuer = Issuer::shared();
    let sign = |header: Value| verified(&issuer.sign(&header, &claims().to_string()));
    assert_eq!(
        sign(json!({"alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false})),
        Err(Fault::Critical)
    );
    assert!(matches!(sign(json!({"alg": "ES256", "kid": "ec", "typ": "dpop+jwt"})), Err(Fault::Type(_))));
    assert!(sign(json!({"alg": "ES256", "kid": "ec", "typ": "application/at+JWT"})).is_ok());
    assert!(matches!(sign(json!({"alg": "ES256", "kid": 7})), Err(Fault::Header(_))));
    assert!(matches!(sign(json!(["ES256", "ec"])), Err(Fault::Header(_))));
    assert!(matches!(sign(json!({"kid": "ec"})), Err(Fault::Header(_))));
    // Another key within the token is not looked at.
    let mut header = json!({"alg": "ES256", "kid": "x", "jku": "https://evil.example"});
    header["jwk"] = Issuer::new().ec_jwk("x");
    assert_eq!(sign(header), Err(Fault::UnknownKey("x".to_string())));
    let twice = encoded(r#"{"alg":"none","alg":"ES256","kid":"ec"}"#);
    assert!(matches!(verified(&format!("{twice}.e30.AA")), Err(Fault::Header(_))));
}

#[test]
fn what_is_not_three_parts_or_too_large_is_refused() {
    let good = Issuer::shared().es256(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let odd = [
        String::new(),
        ".".to_string(),
        "a.b".to_string(),
        parts[..2].join("."),
        format!("{good}."),
        format!("{good}.x"),
        format!("{good}="),
        format!("{good} "),
        format!(" {good}"),
        good.replacen('.', "..", 1),
        format!("{}+.{}.{}", parts[0], parts[1], parts[2]),
    ];
    for text in odd {
        assert_eq!(verified(&text), Err(Fault::Form), "{text}");
    }
    assert!(verified("..").is_err());
    let large = judged(json!({"more": "x".repeat(8 * 1024)}));
    assert_eq!(large, Err(Fault::TooLarge));
}

#[test]
fn issuer_audience_and_subject_are_needed() {
    for name in ["iss", "aud", "sub", "exp"] {
        assert!(
            matches!(judged(json!({name: null})), Err(Fault::Claim(missing)) if missing == name),
            "{name}"
        );
    }
    assert!(matches!(judged(json!({"iss": "https://issuer.example/"})), Err(Fault::Issuer(_))));
    assert!(matches!(judged(json!({"iss": ["https://issuer.example"]})), Err(Fault::Claim("iss"))));
    for wrong in [json!("Baton"), json!(["other", "baton2"]), json!([])] {
        assert_eq!(judged(json!({"aud": wrong})), Err(Fault::Audience), "{wrong}");
    }
    for odd in [json!(7), json!({"baton": 1}), json!(["baton", 7]), json!([["baton"]])] {
        assert_eq!(judged(json!({"aud": odd})), Err(Fault::Claim("aud")), "{odd}");
    }
    assert!(judged(json!({"aud": ["other", "baton"]})).is_ok());
    for odd in [json!(""), json!(7), json!("x".repeat(257))] {
        assert_eq!(judged(json!({"sub": odd})), Err(Fault::Claim("sub")), "{odd}");
    }
}

#[test]
fn times_are_numbers_and_clocks_may_differ_a_little() {
    let text = Issuer::shared().es256(&claims());
    assert!(verified_at(&text, NOW + 609).is_ok(), "within the leeway");
    assert_eq!(verified_at(&text, NOW + 610), Err(Fault::Expired(Span::secs(10))));
    assert!(verified_at(&text, NOW - 10).is_ok());
    assert_eq!(verified_at(&text, NOW - 11), Err(Fault::Early));
    assert!(judged(json!({"exp": 1_800_000_600.5})).is_ok());
    assert_eq!(judged(json!({"nbf": NOW + 11})), Err(Fault::Early));
    assert!(judged(json!({"nbf": 1_800_000_009.5})).is_ok());
    for name in ["exp", "nbf", "iat"] {
        for odd in [json!(NOW.to_string()), json!(-1), json!(1e300), json!(true), json!([NOW]), json!(9.1e15)]
        {
            assert!(
                matches!(judged(json!({name: odd})), Err(Fault::Claim(wrong)) if wrong == name),
                "{name}: {odd}"
            );
        }
    }
    // Null is there, and no number.
    let null = claims().to_string().replace(&format!("\"exp\":{}", NOW + 600), "\"exp\":null");
    let text = Issuer::shared().sign(&json!({"alg": "ES256", "kid": "ec"}), &null);
    assert_eq!(verified(&text), Err(Fault::Claim("exp")));
}

#[test]
fn none_lives_longer_than_the_server_takes() {
    assert!(judged(json!({"exp": NOW + 3_600})).is_ok());
    assert_eq!(judged(json!({"exp": NOW + 3_601})), Err(Fault::LongLived(Span::secs(3_601))));
    assert!(matches!(judged(json!({"exp": 9e14})), Err(Fault::LongLived(_))));
    // It is counted from when it was issued, however little is left.
    assert!(matches!(judged(json!({"iat": NOW - 7_000, "exp": NOW + 60})), Err(Fault::LongLived(_))));
    assert!(matches!(
        judged(json!({"iat": null, "nbf": NOW - 7_000, "exp": NOW + 60})),
        Err(Fault::LongLived(_))
    ));
    // One that does not say when: what is left counts.
    assert!(judged(json!({"iat": null, "exp": NOW + 3_610})).is_ok());
    assert!(matches!(judged(json!({"iat": null, "exp": NOW + 3_611})), Err(Fault::LongLived(_))));
    let text = Issuer::shared().es256(&with(&json!({"exp": NOW + 80_000})));
    let long = Rules { longest: Span::secs(86_400), ..rules() };
    let keys = parsed(&Issuer::shared().jwks());
    assert!(verify::verify(&text, &keys, &long, WallTime::from_unix_millis(NOW * 1_000)).is_ok());
}

#[test]
fn claims_stand_there_once_and_are_not_too_deep() {
    let sign = |claims: &str| verified(&Issuer::shared().sign(&json!({"alg": "ES256", "kid": "ec"}), claims));
    let good = claims().to_string();
    for twice in [
        good.replacen('{', r#"{"sub":"operator","#, 1),
        good.replacen('{', r#"{"exp":99999999999,"#, 1),
        good.replacen('{', r#"{"extra":1,"extra":2,"#, 1),
        good.replacen('{', "{\"s\\u0075b\":\"operator\",", 1),
    ] {
        assert!(matches!(sign(&twice), Err(Fault::Claims(why)) if why.contains("twice")), "{twice}");
    }
    let deep = good.replacen('{', &format!("{{\"deep\":{}{},", "[".repeat(1_000), "]".repeat(1_000)), 1);
    assert!(matches!(sign(&deep), Err(Fault::Claims(_))));
    for odd in ["", "null", "[]", "7", "{", &format!("{good} x"), "{\"a\":\u{0}}"] {
        assert!(matches!(sign(odd), Err(Fault::Claims(_))), "{odd}");
    }
    let many =
        judged(json!({"groups": ["a", "b"], "repository": "acme/app", "number": 7, "mixed": ["a", 7]}))
            .unwrap();
    assert!(many.has("groups", "b") && many.has("repository", "acme/app"));
    assert!(
        !many.has("groups", "c")
            && !many.has("number", "7")
            && !many.has("mixed", "a")
            && !many.has("no", "")
    );
}

#[test]
fn a_file_has_public_keys_that_can_be_used() {
    let issuer = Issuer::shared();
    let parse = |jwks: &Value| keys::parse(jwks.to_string().as_bytes()).map(|keys| keys.len());
    assert_eq!(parse(&issuer.jwks()), Ok(3));
    let refused = |key: Value| parse(&json!({"keys": [issuer.ec_jwk("ok"), key]})).unwrap_err();
    let changed = |name: &str, value: Value| {
        let mut key = issuer.ec_jwk("ec");
        key[name] = value;
        key
    };
    assert!(refused(changed("d", json!("AA"))).contains("private half"));
    assert!(refused(json!({"kty": "oct", "k": "AA"})).contains("shared secret"));
    assert!(refused(changed("kid", json!("ok"))).contains("same id"));
    assert!(refused(changed("x", json!("AA"))).contains("32"));
    assert!(refused(changed("x", json!(encoded([1; 32])))).contains("P-256"));
    assert!(refused(changed("x", json!("+/="))).contains("base64url"));
    assert!(refused(changed("kid", json!("x".repeat(257)))).contains("id is longer"));
    assert!(refused(json!({"kty": "RSA", "n": encoded([255; 128]), "e": "AQAB"})).contains("2048"));
    assert!(refused(json!({"kty": "RSA", "n": encoded([255; 1024]), "e": "AQAB"})).contains("4096"));
    assert!(refused(json!({"kty": "EC", "crv": "P-256"})).contains("no `x`"));
    let rsa = |bytes: &[u8], e: &[u8]| {
        refused(json!({"kty": "RSA", "kid": "weak", "n": encoded(bytes), "e": encoded(e)}))
    };
    // 2047 bits: the first digit of 256 bytes is half of what it must be.
    let short = [&[0x7f][..], &[255; 255]].concat();
    assert_eq!(
        rsa(&short, &[1, 0, 1]),
        "key 2 (kid `weak`): it has 2047 bits; an RSA key has between 2048 and 4096"
    );
    assert!(rsa(&[255; 128], &[1, 0, 1]).contains("1024 bits"));
    assert!(rsa(&[254; 256], &[1, 0, 1]).contains("`n` is even"));
    for e in [&[1][..], &[0, 0, 1], &[2], &[1, 0, 0], &[0], &[255; 8]] {
        assert!(rsa(&[255; 256], e).contains("(kid `weak`): its exponent"), "{e:?}");
    }
    let curve = |alg: &str, crv: &str| {
        refused(json!({"kty": "EC", "kid": "odd", "alg": alg, "crv": crv, "x": "AA", "y": "AA"}))
    };
    assert!(curve("ES256", "P-384").contains("(kid `odd`): its `alg` takes the curve P-256"));
    assert!(curve("ES256", "secp256k1").contains("and its `crv` is secp256k1"));
    assert!(curve("EdDSA", "Ed448").contains("takes the curve Ed25519"));
    assert!(refused(json!({})).contains("kty"));
    // What is for something else is passed over; a file of nothing else is refused.
    let others = [
        json!({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}),
        changed("use", json!("enc")),
        changed("alg", json!("ES512")),
        changed("key_ops", json!(["sign"])),
        json!({"kty": "new"}),
    ];
    for other in others {
        assert_eq!(parse(&json!({"keys": [issuer.ec_jwk("ok"), other]})), Ok(1), "{other}");
        assert!(parse(&json!({"keys": [other]})).unwrap_err().contains("no key for"), "{other}");
    }
    assert!(parse(&json!({"keys": []})).is_err() && parse(&json!([])).is_err() && parse(&json!({})).is_err());
    let many: Vec<Value> = (0..65).map(|number| issuer.ec_jwk(&number.to_string())).collect();
    assert!(parse(&json!({"keys": many})).unwrap_err().contains("64"));
}

/// A JWT that is valid by the clock of this machine.
fn current(issuer: &Issuer, id: &str) -> (String, ContentHash) {
    let now = boot::wall().as_unix_millis() / 1_000;
    let claims = with(&json!({"iat": now, "exp": now + 600}));
    let text = issuer.sign(&json!({"alg": "ES256", "kid": id}), &claims.to_string());
    let hash = ContentHash::of(text.as_bytes());
    (text, hash)
}

#[test]
fn a_file_that_is_read_again_ends_what_its_keys_do_not_sign_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (old, new) = (Issuer::shared(), Issuer::new());
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&json!({"keys": [old.ec_jwk("old")]}).to_string());
    let jwt = Jwt::load(&file, rules()).unwrap();
    let (text, hash) = current(old, "old");
    assert!(jwt.remembered(&hash).is_none(), "nothing is known before it was verified");
    let claims = jwt.verify(&text, hash).unwrap();
    assert!(jwt.remembered(&hash).is_some() && jwt.holds(&claims));
    for bad in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AA"}]}"#] {
        write(bad);
        assert!(jwt.reload().unwrap_err().hint.contains("JWKS"), "{bad}");
        assert!(jwt.remembered(&hash).is_some() && jwt.holds(&claims), "{bad}");
    }
    write(&json!({"keys": [old.ec_jwk("old"), new.ec_jwk("new")]}).to_string());
    jwt.reload().unwrap();
    assert_eq!(jwt.count(), 2);
    assert!(jwt.holds(&claims) && jwt.verify(&text, hash).is_ok(), "its key is still there");
    write(&json!({"keys": [new.ec_jwk("new")]}).to_string());
    jwt.reload().unwrap();
    assert!(jwt.remembered(&hash).is_none() && !jwt.holds(&claims));
    assert_eq!(jwt.verify(&text, hash), Err(Fault::UnknownKey("old".to_string())));
    // Another key with the id of the former one.
    write(&json!({"keys": [new.ec_jwk("old")]}).to_string());
    jwt.reload().unwrap();
    assert!(!jwt.holds(&claims));
    assert_eq!(jwt.verify(&text, hash), Err(Fault::Signature));
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o646)).unwrap();
    assert!(jwt.reload().unwrap_err().hint.starts_with("chmod o-w"));
    std::fs::remove_file(&file).unwrap();
    assert!(jwt.reload().is_err());
}

#[test]
fn as_many_are_remembered_as_there_is_room_for() {
    let keys = Keys { keys: parsed(&Issuer::shared().jwks()), verified: Mutex::default() };
    let claims = Arc::new(judged(json!({})).unwrap());
    let (early, late) = (WallTime::from_unix_millis(0), WallTime::from_unix_millis((NOW + 700) * 1_000));
    for number in 0..3_000_u32 {
        keys.remember(ContentHash::of(&number.to_le_bytes()), &claims, early);
        assert!(keys.verified().len() <= REMEMBERED);
    }
    keys.verified().clear();
    (0..1_024_u32).for_each(|number| keys.remember(ContentHash::of(&number.to_le_bytes()), &claims, early));
    keys.remember(ContentHash([0; 32]), &claims, late);
    assert_eq!(keys.verified().len(), 1, "those that expired make room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No byte of a JWT can be changed.
    #[test]
    fn a_jwt_that_was_changed_anywhere_is_refused(place in any::<prop::sample::Index>(), by in 1_u8..64) {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let text = Issuer::shared().es256(&claims());
        prop_assert!(verified(&text).is_ok());
        let mut bytes = text.into_bytes();
        let place = place.index(bytes.len());
        let letter = LETTERS.iter().position(|letter| *letter == bytes[place]);
        bytes[place] = LETTERS[(letter.unwrap_or(0) + usize::from(by)) % LETTERS.len()];
        prop_assert!(verified(std::str::from_utf8(&bytes).unwrap()).is_err());
    }

    /// Whatever is sent is answered, and nobody is let in.
    #[test]
    fn what_nobody_signed_is_refused(header in "\\PC{0,40}", claims in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let text = format!("{}.{}.{}", encoded(header), encoded(claims), encoded(&bytes));
        prop_assert!(verified(&text).is_err());
        let _ = keys::parse(&bytes);
    }
}
